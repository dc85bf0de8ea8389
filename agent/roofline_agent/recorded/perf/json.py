"""Lines of `perf stat -j`: one object a line, whose keys and quoting differ between versions of perf."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .row import DerivedMetric, PerfRow, derived, is_mark, plain_number, scope

_KEYS = ('"counter-value"', '"metric-value"', '"metricgroup"', '"event-runtime"')
_PLACES = ("cpu", "socket", "die", "cluster", "cache", "core", "node", "thread")
_NO_METRICS = frozenset(("interval", *_PLACES, "aggregate-number", "counters", "cgroup"))
MAX_METRICS = 4000  # characters of such a line
_METRICS_ALONE = re.compile(r'\{(?:\s*"[^"{}]{1,90}"\s*:\s*(?:"[^"]{0,40}"|-?[\d.]{1,30})\s*,?)+\s*\}')
_KNOWN_METRIC = re.compile(
    r'"(?:[ \w%/-]*(?:insn per cycle|CPUs utilized|of all branches|of all cache refs|stalled cycles per insn'
    r'|cycles idle|retiring|bad_speculation|frontend_bound|backend_bound)|GHz)[^"]*"\s*:'
)
_FIELD = re.compile(r'"([\w -]+)"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(-?\d+[.,]\d+|[^,}]+))')


def is_json(line: str) -> bool:
    return "{" in line[:200] and any(key in line for key in _KEYS)


def metrics_alone(line: str) -> tuple[float | None, str, list[DerivedMetric]] | None:
    """Time, place and values of a line of `-j --metric-only`, which names no event; None for any other."""
    if not _METRICS_ALONE.fullmatch(line.strip()[:MAX_METRICS]) or is_json(line):
        return None
    fields = _fields(line)
    place = _place(fields)
    t_s = plain_number(fields.get("interval", ""))
    found: list[DerivedMetric] = []
    for name, text in fields.items():
        printed = plain_number(text.strip().rstrip("%"))
        if name not in _NO_METRICS and printed is not None:
            found.append(derived(name, printed) or DerivedMetric(name, printed, 1.0, "1", ""))
    return t_s, place, found


def looks_metrics_alone(line: str) -> bool:
    """Whether it is surely one: such a line names nothing of perf but its metrics."""
    return bool(_KNOWN_METRIC.search(line)) and bool(metrics_alone(line))


def derived_alone(line: str) -> DerivedMetric | None:
    """The metric of a row that counts nothing itself: a further one of the event before it."""
    fields = _fields(line)
    if "counter-value" in fields or fields.get("event", "").strip():
        return None
    return derived(fields.get("metric-unit", ""), plain_number(fields.get("metric-value", "")))


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
            if key == "cpu" and column.isdecimal():
                return f"cpu {column}"
            return scope(column) or f"{key} {column}"
    return ""
