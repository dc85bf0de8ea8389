"""What the events of a Horovod timeline mean: activities of tensors, fused collectives, cycles. No I/O.

Format (horovod/common/timeline.cc): `pid` is a tensor, named by a process_name event; B and E make a stack
per pid, and an E has no name; an X named by a number is that rank becoming ready; times are microseconds
since a start that the first event gives in UNIX time. The dtype and shape of a tensor are in the args of
the E that ends its collective. Horovod's thread begins a fused collective for all of its tensors in one go,
with nothing else beginning in between: that separates those that overlap, as NCCL's may.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from ..recorded.traces.tensors import element_bytes, element_count
from ..recorded.traces.trace import arguments, number

CYCLE = "CYCLE_START"
_LIBRARY = re.compile(r"(MPI|GLOO|NCCL|CCL|DDL|MLSL|ADASUM)_(?!.*(QUEUE|MEMCPY|WAIT|NEGOTIATE))")
_RANK = re.compile(r"\d{1,7}")


class Started(NamedTuple):
    """When the times of all events begin, UNIX ns."""

    epoch_ns: int


class TensorNamed(NamedTuple):
    """A tensor has this name from now on."""

    pid: str
    name: str


class Ready(NamedTuple):
    """A rank has the tensor that is being negotiated."""

    rank: str


class Cycle(NamedTuple):
    """A cycle of Horovod's background thread begins."""

    at_us: float


class Activity(NamedTuple):
    """Something that was done for one tensor. outermost: nothing else goes on for that tensor any more."""

    name: str
    begin_us: float
    duration_us: float  # as in the file, where it may be negative
    bytes: float | None  # of the tensor, where this event has them
    outermost: bool


class Collective(NamedTuple):
    """One operation of the library, on one tensor or on several that Horovod fused."""

    name: str
    begin_us: float
    end_us: float
    tensors: int
    bytes: float | None  # of all its tensors; None where one of them is unknown


class Inconsistency(NamedTuple):
    """Something in the file that contradicts its format."""

    text: str


Record = Started | TensorNamed | Ready | Cycle | Activity | Collective | Inconsistency


class _Fused:
    """A collective that has begun."""

    def __init__(self, name: str, begin_us: float) -> None:
        self.name, self.begin_us, self.end_us = name, begin_us, begin_us
        self.tensors = 0
        self.unsized = 0  # tensors whose size is not known yet
        self.bytes: float | None = 0.0

    def done(self) -> Collective:
        return Collective(self.name, self.begin_us, max(self.begin_us, self.end_us), self.tensors, self.bytes)


class _OpenActivity(NamedTuple):
    name: str
    begin_us: float
    collective: _Fused | None


class _OpenTensor:
    """The activities of one tensor that have begun and not ended."""

    def __init__(self) -> None:
        self.stack: list[_OpenActivity] = []
        self.collectives: list[_Fused] = []  # to which its size is added


class TimelineDecoder:
    """Takes the events of one file in their order, and gives the records that each of them completes."""

    def __init__(self) -> None:
        self.first_us, self.last_us = math.inf, -math.inf
        self.tensors: dict[str, _OpenTensor] = {}  # those with an activity that has not ended
        self._beginning: _Fused | None = None  # a collective that the next event may add a tensor to

    @property
    def unfinished(self) -> int:
        """Activities that have begun and not ended."""
        return sum(len(state.stack) for state in self.tensors.values())

    def add(self, event: dict[str, Any]) -> list[Record]:
        """One event, as JSON has it. Never raises for what it holds."""
        # One branch for each kind of event in the format: M, B, E, marks by their name, X.
        phase = event.get("ph")
        if phase == "M":
            args = arguments(event)
            records: list[Record] = []
            start_us = number(args.get("start_time_since_epoch_in_micros"))
            if start_us is not None:
                records.append(Started(int(start_us) * 1000))
            if event.get("name") == "process_name" and "name" in args:
                records.append(TensorNamed(str(event.get("pid")), str(args["name"])))
            return records
        at_us = number(event.get("ts"))
        if at_us is None:
            return [Inconsistency("an event has no time; it is left out")]
        self.first_us, self.last_us = min(self.first_us, at_us), max(self.last_us, at_us)
        name, pid = str(event.get("name", "")), str(event.get("pid"))
        if phase == "B":
            tensor = self.tensors.setdefault(pid, _OpenTensor())
            self._beginning = self._join(name, tensor, at_us) if _LIBRARY.match(name) else None
            tensor.stack.append(_OpenActivity(name, at_us, self._beginning))
        elif phase == "E":
            return self._end(pid, at_us, event)
        elif name == CYCLE:
            return [Cycle(at_us)]
        elif _RANK.fullmatch(name):
            return [Ready(name)]
        elif phase == "X":
            duration_us = number(event.get("dur"))
            if duration_us is None:
                return [Inconsistency("an activity has no duration; it is left out")]
            self.last_us = max(self.last_us, at_us + duration_us)
            return [Activity(name, at_us, duration_us, tensor_bytes(arguments(event)), False)]
        return []

    def _join(self, name: str, state: _OpenTensor, at_us: float) -> _Fused:
        """The collective that the tensor is fused into: the one that is just beginning, or a new one."""
        collective = self._beginning
        if collective is None or collective.name != name or collective in state.collectives:
            collective = _Fused(name, at_us)
        collective.tensors += 1
        collective.unsized += 1
        collective.begin_us = min(collective.begin_us, at_us)
        state.collectives.append(collective)
        return collective

    def _end(self, pid: str, at_us: float, event: dict[str, Any]) -> list[Record]:
        state = self.tensors.get(pid)
        if state is None or not state.stack:
            return [Inconsistency("an activity ends that never began; it is left out")]
        begun, outermost = state.stack.pop(), not state.stack
        size = tensor_bytes(arguments(event))
        if begun.collective is not None:
            begun.collective.end_us = max(begun.collective.end_us, at_us)
            self._beginning = None
        done: list[Record] = [Activity(begun.name, begun.begin_us, at_us - begun.begin_us, size, outermost)]
        if not outermost:
            return done
        del self.tensors[pid]  # names may be new ones in every step
        for collective in state.collectives:
            # The size of the tensor is known now, or never will be.
            if size is None or collective.bytes is None:
                collective.bytes = None
            else:
                collective.bytes += size
            collective.unsized -= 1
            if not collective.unsized:
                done.append(collective.done())
        return done


def tensor_bytes(args: dict[str, Any]) -> float | None:
    """Bytes of the tensor that "dtype" and "shape" describe; None where they do not."""
    size, count = element_bytes(args.get("dtype")), element_count(args.get("shape"))
    return None if size is None or count is None else float(size * count)
