"""Lines of `perf stat -j`: one object a line, whose keys and quoting differ between versions of perf."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .row import PerfRow, derived, is_mark, plain_number, scope

_KEYS = ('"counter-value"', '"metric-value"', '"metricgroup"', '"event-runtime"')
_PLACES = ("cpu", "socket", "die", "cluster", "cache", "core", "node", "thread")
_FIELD = re.compile(r'"([\w -]+)"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(-?\d+[.,]\d+|[^,}]+))')


def is_json(line: str) -> bool:
    return "{" in line[:200] and any(key in line for key in _KEYS)


def rows(line: str) -> Iterator[PerfRow]:
    """The counted events of a line; rows that only derive a metric count nothing and give none."""
    fields = _fields(line)
    event = fields.get("event", "").strip()
    if not event or "counter-value" not in fields:
        return
    text = fields["counter-value"].strip()
    value = None if is_mark(text) else plain_number(text)
    if value is None and not is_mark(text):
        return
    percent = plain_number(fields.get("pcnt-running", ""))
    cpus = fields.get("aggregate-number", fields.get("counters", ""))[:9]
    yield PerfRow(
        event,
        text,
        value,
        fields.get("unit", "").strip(),
        plain_number(fields.get("interval", "")),
        _place(fields),
        fields.get("cgroup", "").strip(),
        plain_number(fields.get("event-runtime", "")),
        percent / 100 if percent is not None else None,
        derived(fields.get("metric-unit", ""), plain_number(fields.get("metric-value", ""))),
        int(cpus) if cpus.isdecimal() else None,
    )


def _fields(line: str) -> dict[str, str]:
    start, end = line.find("{"), line.rfind("}")
    try:
        read: Any = json.loads(line[start : end + 1])
    except (ValueError, RecursionError):
        # Some versions leave <not counted>, nan or a decimal comma outside of quotes.
        return {key: quoted or bare.strip() for key, quoted, bare in _FIELD.findall(line)}
    if not isinstance(read, dict):
        return {}
    return {key: str(value) for key, value in read.items() if not isinstance(value, (dict, list))}


def _place(fields: dict[str, str]) -> str:
    for key in _PLACES:
        if key in fields:
            column = fields[key].strip()
            if key == "thread":
                return f"thread {column}"
            if key == "cpu" and column.isdigit():
                return f"cpu {column}"
            return scope(column) or f"{key} {column}"
    return ""
