"""Writes traces and logs for the tests, and reads them the way `import` does."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from roofline_agent.recorded import reader as reading
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.formats import FORMATS, recognise
from roofline_agent.recorded.text import Text, open_binary

Read = Callable[[Text, Collector], None]


def found_in(content: str | bytes, reader: Read, keep_launches: bool = False) -> Collector:
    """What `reader` finds in a file with this content."""
    found = Collector(keep_launches)
    try:
        reader(as_text(content), found)
    finally:
        _into_memory(found)
    return found


def read(path: str) -> Collector:
    """What is found in a file, its format told by its content."""
    found = reading.read(path)
    _into_memory(found)
    return found


@cache
def read_once(path: str) -> Collector:
    """The same, once for all of the numbers that are asked of a file."""
    return read(path)


def _into_memory(found: Collector) -> None:
    """So that no temporary file stays open behind a test."""
    for part in found.parts:
        _into_memory(part)
    found.parts, parts = [], found.parts  # closed once
    kept = (
        list(found.counters),
        list(found.steps),
        list(found.launches) if found.launches is not None else None,
    )
    found.close()
    found.counters, found.steps, found.launches = kept  # type: ignore[assignment]
    found.parts = parts


def as_text(content: str | bytes) -> Text:
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return Text("written.json", io.BytesIO(raw))


def claimed(path: Path) -> set[str]:
    """The formats that a file could be by its content."""
    with open_binary(str(path)) as stream:
        head = Text(path.name, stream).head
    return {one.name for one in FORMATS if one.sniff(head)}


def format_of(content: str) -> str:
    return recognise(as_text(content)).name


def phases(found: Collector) -> dict[str, tuple[int, float, float | None]]:
    return {one.name: (one.count, round(one.time_s, 9), one.bytes) for one in found.phases}


def warned(found: Collector, part: str) -> bool:
    return any(part in one.text for one in found.warnings)


def whole(name: str, at_us: float, duration_us: float, **more: Any) -> dict[str, Any]:
    """An X event."""
    return {"ph": "X", "name": name, "ts": at_us, "dur": duration_us, "pid": 1, "tid": 1, **more}


def trace(events: list[dict[str, Any]], **values: Any) -> str:
    """A Kineto trace with the other values where Kineto writes them: behind the events too."""
    first = {"schemaVersion": 1, "distributedInfo": values.pop("distributedInfo", {})}
    return json.dumps({**first, "traceEvents": events, **values}, indent=1)
