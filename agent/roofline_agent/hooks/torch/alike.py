"""PyTorch: steps of one order of events and one shape of batch are alike; from the third on they differ in
numbers only and are sent by a prepared layout."""

from __future__ import annotations

from typing import Any, Dict, Hashable, List, Optional, Sequence

from .. import Marker
from ..signals import raise_again
from .phases import plan

MOST_KINDS = 1024  # of steps that are known


class StepKind:
    """Steps of one order and shapes."""

    __slots__ = ("counted", "layout", "like")

    def __init__(self, like: int) -> None:
        self.like = like  # their number
        self.layout: Any = None  # None: seen once so far; False: they cannot have one
        # Of a step with the counts of its thread, by their names; None: it cannot have one.
        self.counted: Dict[Sequence[str], Any] = {}


class AlikeSteps:
    """The kinds of steps that a process has had."""

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        self._kinds: Dict[Hashable, StepKind] = {}
        self.kind = self._kinds.get  # of (events, shapes); None: such a step was not seen yet

    def send_counted(
        self,
        kind: StepKind,
        events: bytes,
        number: int,
        examples: Optional[int],
        times: List[int],
        counts: Any,
    ) -> bool:
        """Send a step whose thread was measured; times: of its events, and last when it ended. False: nothing
        was sent."""
        if counts.names not in kind.counted:
            kind.counted[counts.names] = self._layout_with(kind, events, counts.names)
        layout = kind.counted[counts.names]
        if layout is None:
            return False
        return self._marker.send_layout(layout, number, examples, [*times[:-1], *counts.counts, times[-1]])

    def _layout_with(self, kind: StepKind, events: bytes, names: Sequence[str]) -> Any:
        found = plan(events)
        if found is None:
            return None
        # The counts come after the events, and behind these the border's own time.
        first, border = len(events), len(events) + len(names)
        places = (border, *found.places, *(0, border) * len(names))
        return self._marker.layout(1, [*found.names, *names], places, kind.like, range(first, border))

    def seen(self, kind: Optional[StepKind], events: bytes, shapes: Hashable) -> int:
        """There was a step of this kind (None: a new one) that no layout sent: the kind's number, 0 if it has
        none. The second has its layout made."""
        if kind is None:
            like = 0 if shapes is None else self._marker.like(hash((events, shapes)))
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            self._kinds[(events, shapes)] = StepKind(like)
            return like
        if kind.layout is None:
            kind.layout = False
            try:
                found = plan(events)
                if found is not None and found.names:
                    places = (len(events), *found.places)  # the border's own time comes after the events'
                    kind.layout = self._marker.layout(1, found.names, places, kind.like) or False
            except Exception:
                raise_again()
                return kind.like  # its steps are sent one by one, at more cost
        return kind.like
