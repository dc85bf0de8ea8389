"""An `.xplane.pb` of JAX's, TensorFlow's and PyTorch/XLA's profilers as text: a JSON object a line.

The format is tsl/profiler/protobuf/xplane.proto: planes (a device, the host) of lines (a stream, a thread) of
events, whose names and statistics are tables of the plane. The file is mapped, not read into memory.
"""

from __future__ import annotations

import io
import json
import mmap
from collections.abc import Iterator
from typing import Any

from .wire import double, fields, text

_PLANE_NAMES = (b"/host:", b"/device:", b"Task Environment")
# Lines of a device that repeat what its operations are part of.
_SUMS = ("Steps", "XLA Modules", "Framework Ops", "Framework Name Scope", "Source code", "XLA TraceMe")
_PICOSECOND = 1e-12


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


class _Tables:
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
    tables = _Tables(plane)
    start = tables.values(tables.stats).get("profile_start_time")
    if isinstance(start, int):
        yield json.dumps({"started_ns": start}) + "\n"
    is_device = tables.name.startswith("/device:") and "CUSTOM" not in tables.name
    if is_device:
        yield json.dumps({"device": tables.name}) + "\n"
    for line in tables.lines:
        yield from _line(line, tables, is_device)


def _line(line: memoryview, tables: _Tables, is_device: bool) -> Iterator[str]:
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
    for event in events:
        made = _event(event, tables, zero_ns, is_device)
        if made is not None:
            yield json.dumps(made) + "\n"


def _event(event: memoryview, tables: _Tables, zero_ns: int, is_device: bool) -> dict[str, Any] | None:
    """A kernel or a step; None for all else."""
    key = offset_ps = duration_ps = 0
    stats: list[memoryview] = []
    for number, value in fields(event):
        if isinstance(value, int):
            key = value if number == 1 else key
            offset_ps = value if number == 2 else offset_ps
            duration_ps = value if number == 3 else duration_ps
        elif number == 4:
            stats.append(value)
    if not duration_ps:
        return None
    name, more = tables.event(key)
    values = tables.values([*more, *stats]) if more or stats else {}
    times = {"start_s": zero_ns * 1e-9 + offset_ps * _PICOSECOND, "time_s": duration_ps * _PICOSECOND}
    if "step_num" in values and not is_device:
        return {"step": values["step_num"], **times}
    if not is_device and "hlo_op" not in values:
        return None
    known: dict[str, Any] = {
        one: values[one] for one in ("flops", "bytes_accessed", "hlo_module") if one in values
    }
    return {"kernel": name, **times, **known}
