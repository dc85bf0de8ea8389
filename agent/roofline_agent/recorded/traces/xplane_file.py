"""An `.xplane.pb` of JAX's, TensorFlow's and PyTorch/XLA's profilers as text: a JSON object a line.

The format is tsl/profiler/protobuf/xplane.proto: planes (a device, the host) of lines (a stream, a thread) of
events, whose names and statistics are tables of the plane. The file is mapped, not read into memory.
"""

from __future__ import annotations

import io
import json
import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .wire import double, fields, text

_PLANE_NAMES = (b"/host:", b"/device:", b"Task Environment")
# Lines of a device that repeat what its operations are part of.
_SUMS = ("Steps", "XLA Modules", "Framework Ops", "Framework Name Scope", "Source code", "XLA TraceMe")
_ASYNC = "Async XLA Ops"  # transfers next to the operations
_COUNTS = ("flops", "bytes_accessed")  # by XLA's cost analysis
PICOSECOND = 1e-12


def is_xplane(head: bytes) -> bool:
    """Whether a file's first bytes can be those of an XSpace: field 1, a plane with a known name."""
    return head[:1] == b"\x0a" and any(name in head for name in _PLANE_NAMES)


class TextOfXplane(io.RawIOBase):
    """The lines, as bytes."""

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        super().__init__()
        with open(path, "rb") as file:
            self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._lines = _lines(memoryview(self._file))
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = next(self._lines, "").encode("utf-8", "replace")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _lines(space: memoryview) -> Iterator[str]:
    yield json.dumps({"xplane": 1}) + "\n"
    try:
        for number, value in fields(space):
            if number == 1 and not isinstance(value, int):
                yield from _plane(value)
            elif number == 4:
                yield json.dumps({"host": text(value)}) + "\n"
    except ValueError as error:
        yield json.dumps({"broken": str(error)}) + "\n"


class Tables:
    """The names of a plane's events and statistics."""

    def __init__(self, plane: memoryview) -> None:
        self.name = ""
        self.lines: list[memoryview] = []
        self.stats: list[memoryview] = []
        self._events: dict[int, tuple[str, list[memoryview]]] = {}
        self._stats: dict[int, str] = {}
        for number, value in fields(plane):
            if isinstance(value, int):
                continue
            if number == 2:
                self.name = text(value)
            elif number == 3:
                self.lines.append(value)
            elif number == 6:
                self.stats.append(value)
            elif number in (4, 5):
                self._entry(number, value)

    def _entry(self, number: int, entry: memoryview) -> None:
        """Of a map: field 1 the key, field 2 the metadata, whose name is its field 2."""
        found = dict(fields(entry))
        key, metadata = found.get(1, 0), found.get(2)
        if not isinstance(key, int) or metadata is None or isinstance(metadata, int):
            return
        name, stats = "", []
        for field, value in fields(metadata):
            if field == 2:
                name = text(value)
            elif field == 5 and number == 4 and not isinstance(value, int):
                stats.append(value)
        if number == 4:
            self._events[key] = (name, stats)
        else:
            self._stats[key] = name

    def event(self, key: int) -> tuple[str, list[memoryview]]:
        return self._events.get(key, ("", []))

    def knows(self, stat: str) -> bool:
        """Whether events may have a statistic of this name."""
        return stat in self._stats.values()

    def values(self, stats: list[memoryview]) -> dict[str, Any]:
        """Statistics by name; a text may be a reference to the table of names."""
        found: dict[str, Any] = {}
        for stat in stats:
            name = ""
            for field, value in fields(stat):
                if field == 1 and isinstance(value, int):
                    name = self._stats.get(value, "")
                elif field == 2:
                    found[name] = double(value)
                elif field in (3, 4):
                    found[name] = value
                elif field == 5:
                    found[name] = text(value)
                elif field == 7 and isinstance(value, int):
                    found[name] = self._stats.get(value, "")
        return found


def _plane(plane: memoryview) -> Iterator[str]:
    tables = Tables(plane)
    start = tables.values(tables.stats).get("profile_start_time")
    if isinstance(start, int):
        yield json.dumps({"started_ns": start}) + "\n"
    is_device = tables.name.startswith("/device:") and "CUSTOM" not in tables.name
    if is_device:
        yield json.dumps({"device": tables.name}) + "\n"
    for line in tables.lines:
        yield from _line(line, tables, is_device)


def _line(line: memoryview, tables: Tables, is_device: bool) -> Iterator[str]:
    name, zero_ns, events = "", 0, []
    for number, value in fields(line):
        if number == 2:
            name = text(value)
        elif number == 3 and isinstance(value, int):
            zero_ns = value
        elif number == 4 and not isinstance(value, int):
            events.append(value)
    if is_device and name in _SUMS:
        return
    found = (_event(event, tables, zero_ns, is_device) for event in sorted(events, key=place))
    known = (one for one in found if one is not None)
    for one in _phases(known) if is_device and name == _ASYNC else _own_times(known):
        yield json.dumps(one) + "\n"


@dataclass
class _Event:
    begin_ps: int
    end_ps: int
    own_ps: int  # outside the events that it spans
    made: dict[str, Any]


def _phases(events: Iterable[_Event]) -> Iterator[dict[str, Any]]:
    for event in events:
        made = event.made
        moved = {"bytes": made["bytes_accessed"]} if "bytes_accessed" in made else {}
        yield {"phase": made["kernel"], "time_s": made["time_s"], **moved}


def _own_times(events: Iterable[_Event]) -> Iterator[dict[str, Any]]:
    """Of events in order of begin. An operation that spans others, as `while` does its body, has the time
    that is left; where these have FLOPs and bytes it has none, for XLA's counts of it are theirs."""
    stack: list[_Event] = []
    for event in events:
        if "step" in event.made:
            yield event.made
            continue
        while stack and stack[-1].end_ps <= event.begin_ps:
            yield _closed(stack.pop())
        if stack:
            outer = stack[-1]
            outer.own_ps -= min(event.end_ps, outer.end_ps) - event.begin_ps
            if event.end_ps <= outer.end_ps:
                for count in _COUNTS:
                    if event.made.get(count):
                        outer.made.pop(count, None)
        stack.append(event)
    while stack:
        yield _closed(stack.pop())


def _closed(event: _Event) -> dict[str, Any]:
    return {**event.made, "time_s": event.own_ps * PICOSECOND}


def place(event: memoryview) -> tuple[int, int]:
    """Begin, and the longer first of those that begin together: it is the outer one."""
    _, offset_ps, duration_ps, _ = parts(event)
    return offset_ps, -duration_ps


def parts(event: memoryview) -> tuple[int, int, int, list[memoryview]]:
    """Key of its name, begin and duration in ps, statistics."""
    key = offset_ps = duration_ps = 0
    stats: list[memoryview] = []
    for number, value in fields(event):
        if isinstance(value, int):
            key = value if number == 1 else key
            offset_ps = value if number == 2 else offset_ps
            duration_ps = value if number == 3 else duration_ps
        elif number == 4:
            stats.append(value)
    return key, offset_ps, duration_ps, stats


def _event(event: memoryview, tables: Tables, zero_ns: int, is_device: bool) -> _Event | None:
    """A kernel or a step; None for all else."""
    key, offset_ps, duration_ps, stats = parts(event)
    if not duration_ps:
        return None
    name, more = tables.event(key)
    values = tables.values([*more, *stats]) if more or stats else {}
    times = {"start_s": zero_ns * 1e-9 + offset_ps * PICOSECOND, "time_s": duration_ps * PICOSECOND}
    if "step_num" in values and not is_device:
        made = {"step": values["step_num"], **times}
    elif not is_device and "hlo_op" not in values:
        return None
    else:
        known = {one: values[one] for one in (*_COUNTS, "hlo_module") if one in values}
        made = {"kernel": name, **times, **known} | ({"on_device": True} if is_device else {})
    return _Event(offset_ps, offset_ps + duration_ps, duration_ps, made)
