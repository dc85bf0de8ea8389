"""What the events of a Horovod timeline mean: activities of tensors, fused collectives, cycles. No I/O.

Format (horovod/common/timeline.cc): `pid` is a tensor, named by a process_name event; B and E make a stack
per pid, and an E has no name; an X named by a number is that rank becoming ready; times are microseconds
since a start that the first event gives in UNIX time. The dtype and shape of a tensor stand in the args of
the E that ends its collective. Horovod's thread begins a fused collective for all of its tensors in one go,
with nothing else beginning in between: that tells those apart that overlap, as NCCL's may.
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


class Tensor(NamedTuple):
    """A tensor has this name from now on."""

    pid: str
    name: str


class Ready(NamedTuple):
    """A rank has the tensor that is being negotiated."""

    rank: str


class Cycle(NamedTuple):
    """Horovod looked what there is to do."""

    at_us: float


class Activity(NamedTuple):
    """Something that was done for one tensor. outermost: nothing else goes on for that tensor any more."""

    name: str
    begin_us: float
    duration_us: float  # negative where the file says so
    bytes: float | None  # of the tensor, where this event tells
    outermost: bool


class Collective(NamedTuple):
    """One operation of the library, on one tensor or on several that Horovod fused."""

    name: str
    begin_us: float
    end_us: float
    tensors: int
    bytes: float | None  # of all its tensors; None where one does not tell


class Oddity(NamedTuple):
    """Something in the file that cannot be."""

    text: str


Record = Started | Tensor | Ready | Cycle | Activity | Collective | Oddity


class _Fused:
    """A collective that has begun."""

    def __init__(self, name: str, begin_us: float) -> None:
        self.name, self.begin_us, self.end_us = name, begin_us, begin_us
        self.tensors = 0
        self.unsized = 0  # tensors whose size comes yet
        self.bytes: float | None = 0.0

    def done(self) -> Collective:
        return Collective(self.name, self.begin_us, max(self.begin_us, self.end_us), self.tensors, self.bytes)


class _Open(NamedTuple):
    name: str
    begin_us: float
    collective: _Fused | None


class _State:
    """What goes on for one tensor."""

    def __init__(self) -> None:
        self.stack: list[_Open] = []
        self.collectives: list[_Fused] = []  # that wait for its size


class Timeline:
    """Takes the events of one file in their order, and says what each of them completes."""

    def __init__(self) -> None:
        self.first_us, self.last_us = math.inf, -math.inf
        self._tensors: dict[str, _State] = {}
        self._beginning: _Fused | None = None  # a collective that the next event may add a tensor to

    @property
    def unfinished(self) -> int:
        """Activities that have begun and not ended."""
        return sum(len(state.stack) for state in self._tensors.values())

    def add(self, event: dict[str, Any]) -> list[Record]:
        """One event, as JSON has it. Never raises for what it holds."""
        phase = event.get("ph")
        if phase == "M":
            return _described(event)
        at_us = number(event.get("ts"))
        if at_us is None:
            return [Oddity("an event has no time; it is left out")]
        self.first_us, self.last_us = min(self.first_us, at_us), max(self.last_us, at_us)
        name, pid = str(event.get("name", "")), str(event.get("pid"))
        if phase == "B":
            self._begin(name, pid, at_us)
        elif phase == "E":
            return self._end(pid, at_us, event)
        elif name == CYCLE:
            return [Cycle(at_us)]
        elif _RANK.fullmatch(name):
            return [Ready(name)]
        elif phase == "X":
            return self._whole(name, at_us, event)
        return []

    def _begin(self, name: str, pid: str, at_us: float) -> None:
        state = self._tensors.get(pid)
        if state is None:
            state = self._tensors[pid] = _State()
        collective = self._join(name, state, at_us) if _LIBRARY.match(name) else None
        self._beginning = collective
        state.stack.append(_Open(name, at_us, collective))

    def _join(self, name: str, state: _State, at_us: float) -> _Fused:
        collective = self._beginning
        if collective is None or collective.name != name or collective in state.collectives:
            collective = _Fused(name, at_us)
        collective.tensors += 1
        collective.unsized += 1
        collective.begin_us = min(collective.begin_us, at_us)
        state.collectives.append(collective)
        return collective

    def _end(self, pid: str, at_us: float, event: dict[str, Any]) -> list[Record]:
        state = self._tensors.get(pid)
        if state is None or not state.stack:
            return [Oddity("an activity ends that never began; it is left out")]
        begun, outermost = state.stack.pop(), not state.stack
        size = tensor_bytes(arguments(event))
        if begun.collective is not None:
            begun.collective.end_us = max(begun.collective.end_us, at_us)
            self._beginning = None
        done: list[Record] = [Activity(begun.name, begun.begin_us, at_us - begun.begin_us, size, outermost)]
        if outermost:
            done += _complete(state, size)
            del self._tensors[pid]  # names may be new ones in every step
        return done

    def _whole(self, name: str, at_us: float, event: dict[str, Any]) -> list[Record]:
        duration_us = number(event.get("dur"))
        if duration_us is None:
            return [Oddity("an activity has no duration; it is left out")]
        self.last_us = max(self.last_us, at_us + duration_us)
        return [Activity(name, at_us, duration_us, tensor_bytes(arguments(event)), False)]


def _complete(state: _State, size: float | None) -> list[Record]:
    """The size of a tensor has come (or will not): collectives that waited for nothing else."""
    waiting, state.collectives = state.collectives, []
    done: list[Record] = []
    for collective in waiting:
        collective.bytes = None if size is None or collective.bytes is None else collective.bytes + size
        collective.unsized -= 1
        if not collective.unsized:
            done.append(collective.done())
    return done


def _described(event: dict[str, Any]) -> list[Record]:
    args = arguments(event)
    said: list[Record] = []
    start_us = number(args.get("start_time_since_epoch_in_micros"))
    if start_us is not None:
        said.append(Started(int(start_us) * 1000))
    if event.get("name") == "process_name" and "name" in args:
        said.append(Tensor(str(event.get("pid")), str(args["name"])))
    return said


def tensor_bytes(args: dict[str, Any]) -> float | None:
    """Bytes of the tensor that "dtype" and "shape" describe; None where they do not."""
    size, count = element_bytes(args.get("dtype")), element_count(args.get("shape"))
    return None if size is None or count is None else float(size * count)
