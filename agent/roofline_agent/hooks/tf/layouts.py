"""Layouts of steps that are alike: by one a step is sent in a fraction of the time (Marker.send_layout)."""

from __future__ import annotations

from typing import Any, Dict, Hashable, List

from .. import Marker

MOST_LAYOUTS = 64  # kinds of steps that have one


class StepLayouts:
    """Those of one process."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: Dict[Hashable, Any] = {}  # by names of phases and `like`

    def of(self, marker: Marker, names: List[str], like: int, counts: Any) -> Any:
        """For steps with these phases, and counts of their thread (None: not known); False where there is
        none."""
        key = (*names, like) if counts is None else (*names, like, counts.names)
        layout = self._known.get(key)
        if layout is None:
            if len(self._known) >= MOST_LAYOUTS:
                self._known.clear()
            layout = self._known[key] = _layout(marker, names, like, counts) or False
        return layout


def _layout(marker: Marker, names: List[str], like: int, counts: Any) -> Any:
    """Of a step with these phases. Its times: its begin, begin and end of each phase but the last end, counts
    of its thread, and its end, which is that of the last phase."""
    more = () if counts is None else counts.names
    last = 2 * len(names)
    end = last + len(more)
    places = (0, end, *range(1, last), end, *(0, end) * len(more))
    if counts is None:
        return marker.layout(2, names, places, like)
    return marker.layout(2, [*names, *more], places, like, range(last, end))
