"""Operations of TensorFlow's executors and XLA's executables on the CPU, from the host's plane of an XPlane.

An executor names what it runs NAME:TYPE, as "gradient_tape/model/dense/MatMul:_MklMatMul"; an operation of
XLA has the statistics `hlo_op` ("dot.4") and `hlo_module`. Threads are lines of the plane. Times count from
the begin of the profile.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .wire import fields
from .xplane_file import PICOSECOND, Tables, parts, place

HLO = "hlo_op"
_OPERATION = re.compile(r"([\w./\-]+):(_?[A-Z]\w*)")


class HostOperation(NamedTuple):
    """begin_s, time_s: since the profile's begin, and outside the operations it spans."""

    name: str
    kind: str  # "MatMul", "dot"
    begin_s: float
    time_s: float
    by_xla: bool = False


class HostProfile(NamedTuple):
    """anchors: begin of each anchor in the profile, s, and the number that was given to it."""

    operations: list[HostOperation]
    anchors: list[tuple[float, int]]


def read_host(path: Path, anchor: str, most: int) -> HostProfile:
    """The first `most` operations of each thread. Raises OSError, and ValueError for what is no profile."""
    found = HostProfile([], [])
    with path.open("rb") as file:
        space = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    for number, plane in fields(space):
        if number == 1 and not isinstance(plane, int):
            tables = Tables(plane)
            if tables.name.startswith("/host:"):
                for line in tables.lines:
                    _read_line(line, tables, anchor, most, found)
    return found


def _read_line(line: memoryview, tables: Tables, anchor: str, most: int, found: HostProfile) -> None:
    zero_ns, events = 0, []
    for number, value in fields(line):
        if number == 3 and isinstance(value, int):
            zero_ns = value
        elif number == 4 and not isinstance(value, int):
            events.append(value)
    found.operations.extend(_own_times(sorted(events, key=place)[:most], tables, zero_ns))
    for event in events:
        key, offset_ps, _, stats = parts(event)
        name, more = tables.event(key)
        if name == anchor:
            given = tables.values([*more, *stats]).get("at")
            if given is not None:
                found.anchors.append((zero_ns * 1e-9 + offset_ps * PICOSECOND, int(given)))


def _own_times(events: list[memoryview], tables: Tables, zero_ns: int) -> Iterator[HostOperation]:
    """Of one thread, in order of begin."""
    stack: list[tuple[int, HostOperation]] = []  # end in ps
    for event in events:
        key, offset_ps, duration_ps, _ = parts(event)
        named = _operation(event, key, tables) if duration_ps else None
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
        one = HostOperation(name, kind, begin_s, duration_ps * PICOSECOND, by_xla)
        stack.append((offset_ps + duration_ps, one))
    while stack:
        yield stack.pop()[1]


def _operation(event: memoryview, key: int, tables: Tables) -> tuple[str, str, bool] | None:
    """Name, type and whether it is XLA's; None: it is no operation."""
    name, more = tables.event(key)
    match = _OPERATION.fullmatch(name)
    if match is not None:
        return match[1], match[2], False
    stats = parts(event)[3]
    values = tables.values([*more, *stats]) if tables.knows(HLO) and (more or stats) else {}
    if HLO not in values:
        return None
    hlo = str(values[HLO])
    # XLA numbers operations of one kind.
    return f"{values.get('hlo_module', '')}/{hlo}", hlo.rstrip("0123456789").rstrip("."), True
