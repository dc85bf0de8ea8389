"""Notices kernels of a trace that run at once on one stream, which executes them one after the other.

Recorders have been seen to end a kernel late by as much as seconds; a sum of such durations is no time that
the GPU was busy. Little overlap is real: a kernel may be launched before the one that it depends on is over.
"""

from __future__ import annotations

from ..collector import Collector

MICROSECOND = 1e-6
MUCH = 0.1  # of the kernels' time


class Streams:
    """The streams of one trace."""

    def __init__(self) -> None:
        self._spans: dict[str, tuple[float, float]] = {}  # by stream: the last begin and the latest end
        self._total_us = 0.0
        self._overlap_us = 0.0

    def add(self, stream: str, at_us: float, duration_us: float) -> None:
        """A kernel. Those that a file lists before an earlier one are not compared."""
        begin_us, end_us = self._spans.get(stream, (at_us, at_us))
        over_us = at_us + duration_us
        self._total_us += duration_us
        if begin_us <= at_us < end_us:
            self._overlap_us += min(end_us, over_us) - at_us
        self._spans[stream] = (max(begin_us, at_us), max(end_us, over_us))

    def finish(self, found: Collector) -> None:
        if self._overlap_us > MUCH * self._total_us:
            found.warn(
                f"kernels of the same stream overlap by {self._overlap_us * MICROSECOND:.6g} s: "
                "some durations are longer than the kernels took, and so are their sums"
            )
