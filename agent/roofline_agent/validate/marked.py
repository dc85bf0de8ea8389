"""Steps as the worker marks them, by the socket and the packets of a training: hooks are checked by them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from ..marks.listener import MarkListener
from ..marks.packets import MARK_KIND, SPANS_KIND, STEPS_KIND, parse_mark, parse_spans, parse_steps, width_of
from ..records import CounterSet, MarkKind, Metric, MetricKind, Rank, Sample, SourceStatus
from .works import HOOKS

METRICS = (Metric("steps", MetricKind.CUMULATIVE, "1"), Metric("step_ns", MetricKind.CUMULATIVE, "ns"))


class MarkedSteps:
    """A source: how many steps were marked, and how long they took together."""

    name = HOOKS
    fills = "steps"
    measures = False
    counter_set = CounterSet(HOOKS, METRICS)

    def __init__(self, path: Path) -> None:
        """path: of its socket. Raises Unavailable."""
        self._listener = MarkListener(path, everyone=False)
        self._steps = self._step_ns = 0
        self._begins: dict[int, int] = {}  # of steps that have not ended

    def probe(self) -> SourceStatus:
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        self._listener.accept()
        now = time.monotonic_ns()
        for _, _, packet in self._listener.read():
            self._take(packet)
        return [Sample(rank, now, (self._steps, self._step_ns)) for rank in ranks]

    def _take(self, packet: bytes) -> None:
        """The marks and steps of a packet; facts and similar have packets of their own."""
        at = 0
        while at < len(packet):
            kind = packet[at]
            if kind == MARK_KIND:
                mark = parse_mark(packet, at)
                if mark.kind == MarkKind.BEGIN:
                    self._begins[mark.step] = mark.time_ns
                elif mark.kind == MarkKind.END and mark.step in self._begins:
                    self._count(mark.time_ns - self._begins.pop(mark.step))
                at += mark.size
            elif kind == SPANS_KIND:
                at += parse_spans(packet, at).size
            elif kind == STEPS_KIND:
                steps = parse_steps(packet, at)
                numbers = memoryview(steps.numbers).cast("q")
                width = width_of(steps.form)
                for first in range(0, len(numbers), width):
                    self._count(numbers[first + 3] - numbers[first + 2])
                at += steps.size
            else:
                return

    def _count(self, took_ns: int) -> None:
        self._steps += 1
        self._step_ns += took_ns

    def close(self) -> None:
        self._listener.close()
