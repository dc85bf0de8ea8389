"""A recording as one JSON object, written as it goes: the list of counters may be larger than memory."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import IO, Any

from .collector import Collector, FileWarning
from .recording import LEVELS, Counter, Kernel, Launch


def write_json(collector: Collector, name: str, out: IO[str], launches: bool = False) -> None:
    """One line. launches: with every single launch.

    Keys of docs/import.md; a value that the file does not hold is null, never 0.
    """
    out.write("{")
    _pair(out, "tool", collector.tool)
    out.write(", ")
    _pair(out, "version", collector.version or None)
    out.write(", ")
    _pair(out, "file", name)
    _list(out, "kernels", (kernel(k) for k in collector.kernels))
    if launches:
        _list(out, "launches", (launch(one) for one in collector.launches or ()))
    _list(out, "counters", (counter(c) for c in collector.counters))
    _list(out, "phases", (p._asdict() for p in collector.phases))
    throughput: dict[str, Any] | None = None
    if collector.throughput is not None:
        steps = [step._asdict() for step in collector.steps]
        throughput = {**collector.throughput._asdict(), "steps": steps}
    rest = {
        "throughput": throughput,
        "ceilings": [c._asdict() for c in collector.ceilings],
        "run": kernel(collector.run) if collector.run else None,
        "facts": collector.facts,
        "started_ns": collector.started_ns,
        "warnings": [warning(w) for w in collector.warnings],
    }
    for key, value in rest.items():
        out.write(", ")
        _pair(out, key, value)
    out.write("}\n")


def kernel(one: Kernel) -> dict[str, Any]:
    """A kernel as JSON: every level of LEVELS is there, null where nobody measured it."""
    levels = dict.fromkeys(LEVELS) | dict(one.bytes)
    return {
        "name": one.name,
        "launches": one.launches,
        "time_s": one.time_s,
        "flops": one.flops,
        "bytes": levels,
        "intensity": dict.fromkeys(levels) | one.intensity,
        "flops_per_s": one.flops_per_s,
        "precision": one.precision or None,
        "note": one.note or None,
    }


def launch(one: Launch) -> dict[str, Any]:
    """One execution of a kernel, or `count` of them where the tool has summed them up."""
    return {
        "name": one.name,
        "count": one.count,
        "start_s": one.start_s,
        "time_s": one.time_s,
        "flops": one.flops,
        "bytes": dict.fromkeys(LEVELS) | dict(one.bytes),
        "precision": one.precision or None,
        "problem": one.problem or None,
        "note": one.note or None,
    }


def counter(one: Counter) -> dict[str, Any]:
    return {
        "metric": one.metric,
        "event": one.event,
        "value": one.value,
        "unit": one.unit,
        "scope": one.scope or None,
        "coverage": one.coverage,
        "t_s": one.t_s,
        "kind": one.kind,
        "printed": one.printed,
        "printed_unit": one.printed_unit or None,
    }


def warning(one: FileWarning) -> str:
    place = f"line {one.line}: " if one.line else ""
    often = f" ({one.times} times)" if one.times > 1 else ""
    return f"{place}{one.text}{often}"


def _pair(out: IO[str], key: str, value: Any) -> None:
    out.write(f"{json.dumps(key)}: {_dumps(value)}")


def _list(out: IO[str], key: str, items: Iterable[Any]) -> None:
    out.write(f", {json.dumps(key)}: [")
    for at, item in enumerate(items):
        out.write((", " if at else "") + _dumps(item))
    out.write("]")


def _dumps(value: Any) -> str:
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    # JSON has no NaN and no infinity; a value that is no number is no value.
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
