"""Reads a Horovod timeline (HOROVOD_TIMELINE): how long each activity of the tensors took, over which ranks.

Activities of different tensors overlap, so their sums may be longer than the run. What the fused collectives
took is in the facts: `collectives` of the library (MPI_*, GLOO_*, NCCL_*, ...) and their `collective_s`,
overlapping ones once. What the events mean: roofline_agent/horovod/events.py.
"""

from __future__ import annotations

import re

from ...horovod.events import (
    Activity,
    Collective,
    Cycle,
    Inconsistency,
    Ready,
    Record,
    Started,
    TensorNamed,
    TimelineDecoder,
)
from ..collector import Collector
from ..text import Text
from .activities import Activities
from .trace import Trace

MICROSECOND = 1e-6
MAX_TENSORS = 1_000_000
_SIGNS = ("NEGOTIATE_", '"CYCLE_START"', "start_time_since_epoch_in_micros", "_FUSION_BUFFER")
_ACTIVITY = re.compile(
    r'"name": ?"(ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER|QUEUE|WAIT_FOR_DATA)"'
)
_TORCH = re.compile(r'"cat": ?"(cpu_op|kernel|cuda_runtime|Operator)"')


def sniff(head: str) -> int:
    """How sure it is that this is a Horovod timeline, 0..100."""
    if not head.lstrip().startswith(("[", "{")) or '"ph"' not in head or _TORCH.search(head):
        return 0
    if any(sign in head for sign in _SIGNS):
        return 95
    return 70 if _ACTIVITY.search(head) else 0


def read(text: Text, found: Collector) -> None:
    """Adds a phase for each activity, and the numbers of events, tensors, ranks and cycles as facts."""
    found.tool = "horovod timeline"
    trace = Trace(text, found)
    timeline, sums = TimelineDecoder(), _TimelineSums(found)
    for event in trace.events():
        for record in timeline.add(event):
            sums.add(record)
    sums.finish(trace.count, timeline)


class _TimelineSums:
    """What the records of one file add up to."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._activities = Activities()
        self._tensors: set[str] = set()
        self._ranks: set[str] = set()
        self._cycles = 0
        self._collectives = 0
        self._collective_us = 0.0
        self._collectives_until_us = float("-inf")

    def add(self, record: Record) -> None:
        if isinstance(record, Activity) and record.duration_us < 0:
            self._found.warn("an activity ends before it begins; it is left out")
        elif isinstance(record, Activity):
            self._activities.add(record.name, record.duration_us * MICROSECOND, record.bytes)
        elif isinstance(record, Collective):
            self._collectives += 1
            since_us = max(record.begin_us, self._collectives_until_us)
            self._collective_us += max(0.0, record.end_us - since_us)
            self._collectives_until_us = max(record.end_us, self._collectives_until_us)
        elif isinstance(record, Ready):
            self._ranks.add(record.rank)
        elif isinstance(record, Cycle):
            self._cycles += 1
        elif isinstance(record, TensorNamed):
            if len(self._tensors) < MAX_TENSORS:
                self._tensors.add(f"{record.pid} {record.name}")
        elif isinstance(record, Started):
            self._found.started_ns = record.epoch_ns
        elif isinstance(record, Inconsistency):
            self._found.warn(record.text)

    def finish(self, events: int, timeline: TimelineDecoder) -> None:
        """All sums, once the file has ended."""
        self._activities.finish(self._found)
        if timeline.unfinished:
            self._found.warn(
                f"{timeline.unfinished} activities had not ended when the file did; they are left out"
            )
        facts: dict[str, float | int | str] = {"events": events, "tensors": len(self._tensors)}
        if self._ranks:
            facts["ranks"] = len(self._ranks)
        else:
            self._found.warn("no event names a rank: how many there were is not known")
        if self._cycles:
            facts["cycles"] = self._cycles
        if self._collectives:
            facts["collectives"] = self._collectives
            facts["collective_s"] = self._collective_us * MICROSECOND
        if timeline.last_us >= timeline.first_us:
            self._found.duration_s = (timeline.last_us - timeline.first_us) * MICROSECOND
            facts["span_s"] = self._found.duration_s
        self._found.facts.update(facts)
