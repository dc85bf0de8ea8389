"""A network benchmark as text and as tables. Contains words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from rich.console import Group
from rich.text import Text
from roofline.answers.machines import Ceiling, NetResult, NetSummary

from . import about, flat, units, wording
from .columns import Column, Columns
from .names import clean

QUANTILES = ("p5", "p25", "p50", "p75", "p95")
FIELDS = (
    "name",
    "transport",
    "pattern",
    "payload",
    "buffers",
    "buffer_count",
    "message_bytes",
    "serialized",
    "value",
    "unit",
)


class NetBench(NamedTuple):
    """What was measured from one host to another."""

    from_host: str
    to_host: str
    results: list[NetResult]
    ceilings: list[Ceiling]
    notes: list[str]


def gathered(
    from_host: str, to_host: str, events: Iterable[str | NetResult | NetSummary], progress: Any
) -> NetBench:
    """All that a benchmark says, texts of progress going to `progress`. Raises what `events` raises."""
    results: list[NetResult] = []
    summary = NetSummary([], [])
    for event in events:
        if isinstance(event, str):
            progress(event)
        elif isinstance(event, NetResult):
            results.append(event)
        else:
            summary = event
    return NetBench(from_host, to_host, results, summary.ceilings, summary.notes)


def as_text(found: NetBench) -> Group:
    """A table per pattern, and what became the ceilings."""
    head = Text(clean(f"Network from {found.from_host} to {found.to_host}"), style="bold")
    parts: list[Any] = [head]
    for pattern, title in wording.NET_PATTERNS.items():
        heads = [Column(""), *(Column(name, right=True) for name in ("message", "median", "p5", "p95"))]
        results = Columns(title, heads)
        for result in found.results:
            if result.pattern != pattern:
                continue
            p5 = p95 = "-"
            if result.spread:
                p5 = units.number(result.spread.p5, result.unit)
                p95 = units.number(result.spread.p95, result.unit)
            message = units.number(result.message_bytes, "byte") if result.message_bytes else "stream"
            results.add(f"  {result.name}", message, units.number(result.value, result.unit), p5, p95)
        if results.rows:
            parts += ["", results]

    if found.ceilings:
        heads = [Column(""), *(Column(name, right=True) for name in ("ceiling", "median", "spread"))]
        ceilings = Columns(wording.net_ceilings(found.from_host), [*heads, Column("how", folds=True)])
        for c in found.ceilings:
            median = "-" if c.median is None else units.number(c.median, c.unit)
            value = units.number(c.value, c.unit)
            ceilings.add(f"  {c.name}", value, median, f"{c.spread:.1%}", c.method)
        parts += ["", ceilings]
    return Group(*parts, *about.notes(found.notes))


def as_json(found: NetBench) -> str:
    """JSON. Raises ClientError for a number that JSON cannot hold."""
    return about.as_json("net", found)


def as_csv(found: NetBench) -> str:
    """The first of its tables as CSV."""
    return flat.as_csv(tables(found)["results"])


def tables(found: NetBench) -> dict[str, flat.Table]:
    """results: a row each, in the unit that it says; p5 to p95 over the repeats."""
    columns = ("from_host", "to_host", *FIELDS, *QUANTILES, "repeats", "method", "time_ns")
    rows = []
    for result in found.results:
        row: list[Any] = [found.from_host, found.to_host]
        row += [getattr(result, name) for name in FIELDS]
        if result.spread:
            row += [getattr(result.spread, name) for name in QUANTILES]
            row.append(result.spread.count)
        else:
            row += [None] * (len(QUANTILES) + 1)
        rows.append((*row, result.method, result.time_ns))
    return {"results": flat.Table(columns, rows, {"message_bytes": "byte", "time_ns": "ns"})}
