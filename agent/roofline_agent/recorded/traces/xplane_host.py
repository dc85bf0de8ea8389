"""Operations of TensorFlow's executors and XLA's executables on the CPU, from the host's plane of an XPlane.

An executor names what it runs NAME:TYPE, as "gradient_tape/model/dense/MatMul:_MklMatMul"; an operation of
XLA has the statistics `hlo_op` ("dot.4") and `hlo_module`. Threads are lines of the plane. An operation that
waits, for a tensor of another process or for input, has an event where it begins to and one where it has
ended, perhaps on another thread, which share a number. Times count from the begin of the profile.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .wire import fields
from .xplane_file import PICOSECOND, Tables, parts, place

HLO = "hlo_op"
_OPERATION = re.compile(r"([\w./\-]+):(_?[A-Z]\w*)")
_SERVICE = "EagerService"  # named alike is what a server does for others: all of a step
_BEGINS, _ENDED = "ExecutorState::ProcessAsync::Start", "ExecutorState::ProcessAsync::Done"
RECEIVE, SEND = "_Recv", "_Send"
_WAITS = re.compile(r"_(?:Host)?Recv|IteratorGetNext\w*|Collective\w+")
_TASK = re.compile(r"/job:(\w+)/replica:\d+/task:(\d+)")


class HostOperation(NamedTuple):
    """begin_s, time_s: since the profile's begin, and outside the operations it spans.

    shapes: of its inputs, "(float[32,256];float[256,10])". peer: of a tensor that is sent or received, the
    other process, "ps:0". Both "" where the profile does not say.
    """

    name: str
    kind: str  # "MatMul", "dot"
    begin_s: float
    time_s: float
    shapes: str = ""
    peer: str = ""
    by_xla: bool = False


class HostProfile(NamedTuple):
    """waits: operations that wait. anchors: begin of each anchor in the profile, s, and the number that was
    given to it."""

    operations: list[HostOperation]
    anchors: list[tuple[float, int]]
    waits: list[HostOperation]


class _Waiting(NamedTuple):
    """Begins and ends of operations that wait, by the number that they share; s."""

    begun: dict[int, HostOperation]
    ended: dict[int, float]
    peers: dict[str, str]  # by name of the operation

    def pairs(self) -> Iterator[HostOperation]:
        for number, one in self.begun.items():
            if number in self.ended:
                lasted = self.ended[number] - one.begin_s
                yield one._replace(time_s=max(0.0, lasted), peer=self.peers.get(one.name, ""))


def read_host(path: Path, anchor: str, most: int) -> HostProfile:
    """The first `most` operations of each thread. Raises OSError, and ValueError for what is no profile."""
    found, waiting = HostProfile([], [], []), _Waiting({}, {}, {})
    with path.open("rb") as file:
        space = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    for number, plane in fields(space):
        if number == 1 and not isinstance(plane, int):
            tables = Tables(plane)
            if tables.name.startswith("/host:"):
                for line in tables.lines:
                    _read_line(line, tables, anchor, most, found, waiting)
    found.waits.extend(waiting.pairs())
    return found


def _read_line(
    line: memoryview, tables: Tables, anchor: str, most: int, found: HostProfile, waiting: _Waiting
) -> None:
    zero_ns, events = 0, []
    for number, value in fields(line):
        if number == 3 and isinstance(value, int):
            zero_ns = value
        elif number == 4 and not isinstance(value, int):
            events.append(value)
    for one in _own_times(sorted(events, key=place)[:most], tables, zero_ns):
        if _WAITS.fullmatch(one.kind):  # here it only begins to
            waiting.peers[one.name] = one.peer
        else:
            found.operations.append(one)
    for event in events:
        key, offset_ps, _, stats = parts(event)
        name, more = tables.event(key)
        at_s = zero_ns * 1e-9 + offset_ps * PICOSECOND
        if name == anchor:
            given = tables.values([*more, *stats]).get("at")
            if given is not None:
                found.anchors.append((at_s, int(given)))
        elif name in (_BEGINS, _ENDED):
            _note_wait(name, tables.values([*more, *stats]), at_s, waiting)


def _note_wait(event: str, values: dict[str, Any], at_s: float, waiting: _Waiting) -> None:
    kind, number = str(values.get("kernel_type", "")), values.get("_p" if event == _BEGINS else "_c")
    if number is None or not _WAITS.fullmatch(kind):
        return
    if event == _BEGINS:
        waiting.begun[int(number)] = HostOperation(str(values.get("name", "")), kind, at_s, 0.0)
    else:
        waiting.ended[int(number)] = at_s


def _own_times(events: list[memoryview], tables: Tables, zero_ns: int) -> Iterator[HostOperation]:
    """Of one thread, in order of begin."""
    stack: list[tuple[int, HostOperation]] = []  # end in ps
    for event in events:
        key, offset_ps, duration_ps, stats = parts(event)
        name, more = tables.event(key)
        values = tables.values([*more, *stats]) if duration_ps and (more or stats) else {}
        named = _operation(name, values) if duration_ps else None
        if named is None:
            continue
        while stack and stack[-1][0] <= offset_ps:
            yield stack.pop()[1]
        if stack:
            end_ps, outer = stack[-1]
            inside_s = (min(offset_ps + duration_ps, end_ps) - offset_ps) * PICOSECOND
            stack[-1] = end_ps, outer._replace(time_s=outer.time_s - inside_s)
        begin_s = zero_ns * 1e-9 + offset_ps * PICOSECOND
        name, kind, by_xla = named
        one = HostOperation(
            name,
            kind,
            begin_s,
            duration_ps * PICOSECOND,
            str(values.get("shape", "")),
            _peer(kind, str(values.get("key", ""))),
            by_xla,
        )
        stack.append((offset_ps + duration_ps, one))
    while stack:
        yield stack.pop()[1]


def _operation(name: str, values: Mapping[str, Any]) -> tuple[str, str, bool] | None:
    """Name, type and whether it is XLA's, of an event of this name with these statistics; None: it is no
    operation."""
    match = _OPERATION.fullmatch(name)
    if match is not None:
        return None if match[1] == _SERVICE else (match[1], match[2], False)
    if HLO not in values:
        return None
    hlo = str(values[HLO])
    # XLA numbers operations of one kind.
    return f"{values.get('hlo_module', '')}/{hlo}", hlo.rstrip("0123456789").rstrip("."), True


def _peer(kind: str, key: str) -> str:
    """Of a rendezvous key "SOURCE;...;DESTINATION;...": the other process; "" where both are this one."""
    tasks = [f"{job}:{task}" for job, task in _TASK.findall(key)]
    if len(tasks) < 2 or tasks[0] == tasks[1]:
        return ""
    return tasks[1] if kind == SEND else tasks[0]
