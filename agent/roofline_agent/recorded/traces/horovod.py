"""Reads a Horovod timeline (HOROVOD_TIMELINE): how long each activity of the tensors took, over which ranks.

Format (horovod/common/timeline.cc): `pid` is a tensor, named by a process_name event; B and E make a stack
per pid, and an E has no name; an X named by a number is that rank becoming ready; times are microseconds. The
dtype and shape of a tensor stand in the args of the E that ends its collective. Activities of different
tensors overlap, so their sums may be longer than the run. What the fused collectives took is in the facts:
`collectives` of the library (MPI_*, GLOO_*, NCCL_*, ...) and their `collective_s`, overlapping ones once.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ..collect import Collector
from ..text import Text
from .activities import Activities
from .tensors import element_bytes, element_count
from .trace import Trace, arguments, number

MICROSECOND = 1e-6
CYCLE = "CYCLE_START"
MAX_TENSORS = 1_000_000
_LIBRARY = re.compile(r"(MPI|GLOO|NCCL|CCL|DDL|MLSL|ADASUM)_(?!.*(QUEUE|MEMCPY|WAIT|NEGOTIATE))")
_RANK = re.compile(r"\d{1,7}")
_SIGNS = ("NEGOTIATE_", f'"{CYCLE}"', "start_time_since_epoch_in_micros", "_FUSION_BUFFER")
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
    timeline = _Timeline(found)
    for event in trace.events():
        timeline.add(event)
    timeline.tell(trace.count)


class _Begun(NamedTuple):
    name: str
    begin_us: float


class _Timeline:
    """The events of one file, in their order."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._activities = Activities()
        self._open: dict[Any, list[_Begun]] = {}  # by pid: a B's name is needed when its E comes
        self._tensors: set[str] = set()
        self._ranks: set[str] = set()
        self._cycles = 0
        self._communicating = 0  # tensors of which the library moves something at the moment
        self._since_us = 0.0
        self._collectives = 0
        self._collective_us = 0.0
        self._first_us = float("inf")
        self._last_us = float("-inf")

    def add(self, event: dict[str, Any]) -> None:
        phase = event.get("ph")
        if phase == "M":
            self._describe(event)
            return
        at_us = number(event.get("ts"))
        if at_us is None:
            self._found.warn("an event has no time; it is left out")
            return
        self._first_us = min(self._first_us, at_us)
        self._last_us = max(self._last_us, at_us)
        name, pid = str(event.get("name", "")), str(event.get("pid"))
        if phase == "B":
            self._open.setdefault(pid, []).append(_Begun(name, at_us))
            self._communicate(name, 1, at_us)
        elif phase == "E":
            self._end(pid, at_us, event)
        elif name == CYCLE:
            self._cycles += 1
        elif _RANK.fullmatch(name):
            self._ranks.add(name)
        elif phase == "X":
            self._whole(name, at_us, event)

    def _describe(self, event: dict[str, Any]) -> None:
        args = arguments(event)
        start_us = number(args.get("start_time_since_epoch_in_micros"))
        if start_us is not None:
            self._found.started_ns = int(start_us) * 1000
        if event.get("name") == "process_name" and "name" in args and len(self._tensors) < MAX_TENSORS:
            self._tensors.add(f"{event.get('pid')} {args['name']}")

    def _end(self, pid: str, at_us: float, event: dict[str, Any]) -> None:
        stack = self._open.get(pid)
        if not stack:
            self._found.warn("an activity ends that never began; it is left out")
            return
        begun = stack.pop()
        self._communicate(begun.name, -1, at_us)
        self._count(begun.name, at_us - begun.begin_us, event)

    def _communicate(self, name: str, change: int, at_us: float) -> None:
        """Tensors fused into one collective begin and end together: it lasts from the first to the last."""
        if not _LIBRARY.match(name):
            return
        if not self._communicating:
            self._since_us = at_us
        self._communicating += change
        if not self._communicating:
            self._collectives += 1
            self._collective_us += max(0.0, at_us - self._since_us)

    def _whole(self, name: str, at_us: float, event: dict[str, Any]) -> None:
        duration_us = number(event.get("dur"))
        if duration_us is None:
            self._found.warn("an activity has no duration; it is left out")
            return
        self._last_us = max(self._last_us, at_us + duration_us)
        self._count(name, duration_us, event)

    def _count(self, name: str, duration_us: float, event: dict[str, Any]) -> None:
        if duration_us < 0:
            self._found.warn("an activity ends before it begins; it is left out")
            return
        self._activities.add(name, duration_us * MICROSECOND, tensor_bytes(arguments(event)))

    def tell(self, events: int) -> None:
        """All sums, once the file has ended."""
        self._activities.tell(self._found)
        unfinished = sum(len(stack) for stack in self._open.values())
        if unfinished:
            self._found.warn(f"{unfinished} activities had not ended when the file did; they are left out")
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
        if self._last_us >= self._first_us:
            self._found.duration_s = (self._last_us - self._first_us) * MICROSECOND
            facts["span_s"] = self._found.duration_s
        self._found.facts.update(facts)


def tensor_bytes(args: dict[str, Any]) -> float | None:
    """Bytes of the tensor that "dtype" and "shape" describe; None where they do not."""
    size, count = element_bytes(args.get("dtype")), element_count(args.get("shape"))
    return None if size is None or count is None else float(size * count)
