"""Operations of TensorFlow's executors on the CPU, from the host's plane of an XPlane profile.

An executor names what it runs NAME:TYPE, as "gradient_tape/model/dense/MatMul:_MklMatMul"; threads are lines
of the plane. Times count from the begin of the profile.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .wire import fields
from .xplane_file import PICOSECOND, Tables, parts, place

_OPERATION = re.compile(r"([\w./\-]+):(_?[A-Z]\w*)")


class HostOperation(NamedTuple):
    """begin_s, time_s: since the profile's begin, and outside the operations it spans."""

    name: str
    kind: str  # "MatMul"
    begin_s: float
    time_s: float


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
        match = _OPERATION.fullmatch(tables.event(key)[0])
        if match is None or not duration_ps:
            continue
        while stack and stack[-1][0] <= offset_ps:
            yield stack.pop()[1]
        if stack:
            end_ps, outer = stack[-1]
            inside_s = (min(offset_ps + duration_ps, end_ps) - offset_ps) * PICOSECOND
            stack[-1] = end_ps, outer._replace(time_s=outer.time_s - inside_s)
        begin_s = zero_ns * 1e-9 + offset_ps * PICOSECOND
        one = HostOperation(match[1], match[2], begin_s, duration_ps * PICOSECOND)
        stack.append((offset_ps + duration_ps, one))
    while stack:
        yield stack.pop()[1]
