"""A network benchmark as text and as tables. Knows words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rich.console import Group
from rich.text import Text
from roofline.answers.machines import Ceiling, NetResult, NetSummary

from . import about, flat, units
from .columns import Column, Columns
from .names import clean

PATTERNS = {
    "latency": "Round trip",
    "bandwidth": "Bandwidth, one direction",
    "ps": "Parameter server, all workers",
}
QUANTILES = ("p5", "p25", "p50", "p75", "p95")
FIELDS = (
    *("name", "transport", "pattern", "payload", "buffers", "buffer_count"),
    *("message_bytes", "serialized", "value", "unit"),
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
    for pattern, title in PATTERNS.items():
        members = [result for result in found.results if result.pattern == pattern]
        if members:
            parts += ["", _results(title, members)]
    if found.ceilings:
        parts += ["", _ceilings(found)]
    parts += about.notes(found.notes)
    return Group(*parts)


def _results(title: str, members: Sequence[NetResult]) -> Columns:
    heads = [Column(""), Column("message", right=True), Column("median", right=True)]
    table = Columns(title, [*heads, Column("p5", right=True), Column("p95", right=True)])
    for result in members:
        message = units.number(result.message_bytes, "byte") if result.message_bytes else "stream"
        spread = result.spread
        ends = (
            [units.number(value, result.unit) for value in (spread.p5, spread.p95)] if spread else ["-", "-"]
        )
        table.add(f"  {result.name}", message, units.number(result.value, result.unit), *ends)
    return table


def _ceilings(found: NetBench) -> Columns:
    heads = [
        Column(""),
        Column("ceiling", right=True),
        Column("median", right=True),
        Column("spread", right=True),
    ]
    title = f"Network ceilings of {found.from_host}, kept there"
    table = Columns(title, [*heads, Column("how", folds=True)])
    for ceiling in found.ceilings:
        median = "-" if ceiling.median is None else units.number(ceiling.median, ceiling.unit)
        value = units.number(ceiling.value, ceiling.unit)
        table.add(f"  {ceiling.name}", value, median, f"{ceiling.spread:.1%}", ceiling.method)
    return table


def as_json(found: NetBench) -> str:
    """JSON. Raises ClientError for a number that JSON cannot hold."""
    return about.as_json("net", found)


def tables(found: NetBench) -> dict[str, flat.Table]:
    """results: a row each, in the unit that it says; p5 to p95 over the repeats."""
    rows = [_row(found, result) for result in found.results]
    columns = ("from_host", "to_host", *FIELDS, *QUANTILES, "repeats", "method", "time_ns")
    return {"results": flat.Table(columns, rows, {"message_bytes": "byte", "time_ns": "ns"})}


def _row(found: NetBench, result: NetResult) -> tuple[Any, ...]:
    spread = result.spread
    quantiles = [getattr(spread, name) if spread else None for name in QUANTILES]
    return (
        *(found.from_host, found.to_host),
        *(getattr(result, name) for name in FIELDS),
        *(*quantiles, spread.count if spread else None),
        *(result.method, result.time_ns),
    )
