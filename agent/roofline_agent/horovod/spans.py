"""Spans of rank 0 from the records of a Horovod timeline. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable

from roofline_step.packets import Span

from .events import Activity, Collective, Cycle, Record, Started

REQUESTS_WITHIN_NS = 1_000_000  # requests within this time make one span
CYCLES_WITHIN_NS = 5_000_000  # cycles are counted over stretches of this length
MANY_SPANS, JOIN_WITHIN_NS = 2000, 1_000_000  # more spans at once are joined where they are this close
MAX_US, MAX_BYTES = 2**50, 2**50  # larger values of a broken file are left out
MAX_EPOCH_NS = 2**61
NEGOTIATE = "NEGOTIATE_"
_COPY = re.compile(r"MEMCPY_(IN|OUT)_")
_WAIT = re.compile(r"QUEUE|WAIT_FOR_")
# What the libraries and the timeline's outermost events are named by; "ADASUM" is an allreduce, too.
_KINDS = (
    ("reducescatter", ("REDUCESCATTER", "REDUCE_SCATTER")),
    ("allreduce", ("ALLREDUCE", "ADASUM", "REDUCE")),
    ("allgather", ("ALLGATHER",)),
    ("broadcast", ("BCAST", "BROADCAST")),
    ("alltoall", ("ALLTOALL",)),
    ("barrier", ("BARRIER",)),
)


def kind(name: str) -> str | None:
    """Which collective "GLOO_BCAST" or "BROADCAST" is; None for no collective."""
    return next((kind for kind, words in _KINDS if any(word in name for word in words)), None)


class Spans:
    """Takes records, gives spans in node time."""

    def __init__(self) -> None:
        self._to_node_ns: int | None = None
        self._spans: list[Span] = []  # collectives and cycles
        self._details: list[Span] = []  # of single tensors
        self._requests: list[Span] = []
        self._cycles: tuple[float, float, int] | None = None  # begin, latest, how many have ended

    def add(self, record: Record, wall_to_node_ns: int) -> None:
        """wall_to_node_ns: what has to be added to the wall clock now to get node time."""
        if isinstance(record, Started):
            # The file counts by a steady clock from here on: what the wall clock does later is of no matter.
            if 0 <= record.epoch_ns < MAX_EPOCH_NS:
                self._to_node_ns = record.epoch_ns + wall_to_node_ns
        elif self._to_node_ns is None or not _has_plausible_times(record):
            return
        elif isinstance(record, Collective):
            found = kind(record.name) or "other"
            span = self._made(f"engine.{found}", record.begin_us, record.end_us, record.bytes, 1)
            self._spans.append(span)
        elif isinstance(record, Activity):
            self._activity(record)
        elif isinstance(record, Cycle) and self._cycles is None:
            self._cycles = (record.at_us, record.at_us, 0)
        elif isinstance(record, Cycle) and self._cycles is not None:
            begin_us, _, count = self._cycles
            self._cycles = (begin_us, record.at_us, count + 1)
            if (record.at_us - begin_us) * 1000 >= CYCLES_WITHIN_NS:
                self._spans.append(self._made("engine.cycle", begin_us, record.at_us, None, count + 1))
                self._cycles = (record.at_us, record.at_us, 0)

    def _activity(self, activity: Activity) -> None:
        end_us = activity.begin_us + max(0.0, activity.duration_us)
        if activity.name.startswith(NEGOTIATE):
            self._detail("engine.negotiate", activity.begin_us, end_us)
        elif _COPY.match(activity.name):
            self._detail("engine.memcpy", activity.begin_us, end_us)
        elif _WAIT.match(activity.name):
            self._detail("engine.queue", activity.begin_us, end_us)
        elif activity.outermost and (found := kind(activity.name)):
            # When Horovod takes it up, not when it was first requested: that may have been by another rank, a
            # step ahead of this one. Now all ranks have requested it, and none has its result.
            at_us = activity.begin_us
            self._requests.append(self._made(f"asked.{found}", at_us, at_us, activity.bytes, 1))

    def _detail(self, name: str, begin_us: float, end_us: float) -> None:
        self._details.append(self._made(name, begin_us, end_us, None, 1))

    def _made(self, name: str, begin_us: float, end_us: float, size: float | None, count: int) -> Span:
        assert self._to_node_ns is not None
        begin, end = self._to_node_ns + round(begin_us * 1000), self._to_node_ns + round(end_us * 1000)
        moved = None if size is None or not 0 <= size <= MAX_BYTES else int(size)
        return name, begin, max(begin, end), moved, count

    def take(self) -> list[Span]:
        """What is complete by now."""
        spans = self._spans + joined(self._details, 0) + joined(self._requests, REQUESTS_WITHIN_NS)
        self._spans, self._details, self._requests = [], [], []
        return joined(spans, JOIN_WITHIN_NS) if len(spans) > MANY_SPANS else spans


def _has_plausible_times(record: Record) -> bool:
    moments: tuple[float, ...] = ()
    if isinstance(record, Collective):
        moments = (record.begin_us, record.end_us)
    elif isinstance(record, Activity):
        moments = (record.begin_us, record.begin_us + record.duration_us)
    elif isinstance(record, Cycle):
        moments = (record.at_us,)
    return all(abs(us) <= MAX_US for us in moments)


def joined(spans: Iterable[Span], within_ns: int) -> list[Span]:
    """Spans of one name that overlap, or follow one another within this time, as one.

    Counts and bytes add up; bytes are unknown where one of them does not have them.
    """
    done: list[Span] = []
    last: dict[str, Span] = {}
    for span in sorted(spans, key=lambda span: span[1]):
        name, begin, end, size, count = span
        before = last.get(name)
        if before is not None and begin - before[2] <= within_ns:
            both = None if size is None or before[3] is None else size + before[3]
            last[name] = (name, before[1], max(end, before[2]), both, count + before[4])
            continue
        if before is not None:
            done.append(before)
        last[name] = span
    return done + list(last.values())
