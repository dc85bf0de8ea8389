"""Points against their roofs, as text and as tables. Knows words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.machines import Ceiling
from roofline.answers.roofline import Crossing, Roof, RoofLine, Roofline, RoofPoint
from roofline.answers.values import Spread, Value

from . import about, flat, units
from .columns import Column, Columns
from .names import clean, listed, natural

POINTS_SHOWN = 60
SENTENCES_SHOWN, SHARERS_SHOWN = 12, 3  # sentences of one kind, points named before one
LEVELS = {"": "-", "minimum": "tensors", "l1": "L1", "l2": "L2", "l3": "L3", "dram": "DRAM", "hbm": "HBM"}
# Title in the text -> the field of a point.
VALUES = {
    "FLOP/byte": "intensity",
    "FLOP/s": "flops_per_second",
    "attainable": "attainable",
    "headroom": "headroom",
    "total time": "time",
    "FLOP/J": "flops_per_joule",
}
ONLY_KNOWN = ("FLOP/J",)  # columns that are there when a point has a value in them


def as_text(found: Roofline) -> Group:
    """The points worth most time, what holds each back, and what is missing."""
    shown = in_order(found.points[:POINTS_SHOWN])
    parts: list[Any] = [about.head(found.about, f"{found.kind} roofline")]
    parts += _roofs(found.roofs)
    if shown:
        parts += ["", _points(shown)]
    if more := len(found.points) - len(shown):
        parts.append(Text(f"and {more:,} more that took less time: --format csv has all of them"))
    parts += _words(shown)
    if found.crossings:
        parts += ["", _crossings(found.crossings), *sentences((c.label, c.words) for c in found.crossings)]
    parts += about.reasons(_values(found.points))
    parts += about.notes(found.notes)
    return Group(*parts, "", about.legend(_legend(shown)))


def in_order(points: Iterable[RoofPoint]) -> list[RoofPoint]:
    """Roles, ranks and steps by their names; phases of a rank and kernels as they came, by time."""
    return sorted(points, key=_place_in_order)


def _place_in_order(point: RoofPoint) -> tuple[str | int, ...]:
    if point.kind == "kernel":
        return ()
    return natural(point.rank if point.kind == "phase" else point.label)


def _roofs(roofs: Sequence[Roof]) -> list[Text]:
    """The lines that make each roof."""
    lines = []
    for roof in roofs:
        binding = ", ".join(line.label for line in roof.lines if line.binding)
        note = f" ({roof.note})" if roof.note else ""
        lines.append(
            Text(clean(f"roof of {place(roof.host, roof.device)}: {binding or 'none measured'}{note}"))
        )
    return lines


def place(host: str, device: str) -> str:
    """ "node1" of its CPUs, "node1 gpu 0" of a device."""
    return f"{host or '-'} {device}".rstrip()


def _points(points: Sequence[RoofPoint]) -> Columns:
    known = [t for t, f in VALUES.items() if t not in ONLY_KNOWN or any(getattr(p, f).value for p in points)]
    spread = any(p.flops_spread for p in points)
    heads = [Column(""), Column("bytes"), *(Column(title, right=True) for title in known)]
    one = "a launch" if points[0].kind == "kernel" else "a step"
    heads += [Column(f"FLOP/s of {one}, 5 to 95 %", right=True)] if spread else []
    table = Columns("Points", [*heads, Column("roof"), Column("precision")])
    for point in points:
        cells = [cell(title, getattr(point, VALUES[title])) for title in known]
        cells += [between(point.flops_spread, "FLOP/s")] if spread else []
        level = LEVELS.get(point.level, point.level)
        table.add(_label(point), level, *cells, point.bound or "-", point.precision or "-")
    return table


def cell(title: str, value: Value) -> str:
    """A headroom is a factor; the rest have units."""
    if title == "headroom" and value.value is not None:
        return f"{value.value:,.0f}x" if value.value >= 100 else f"{units.show(value)}x"
    return units.show(value)


def between(spread: Spread | None, unit: str) -> str:
    """The range in which nine in ten lie."""
    if spread is None:
        return "-"
    return f"{units.number(spread.p5, unit)} to {units.number(spread.p95, unit)}"


def _label(point: RoofPoint) -> str:
    where = f" @{place(point.host, point.device)}"
    return f"{point.label}{where}{' (incomplete)' if point.incomplete else ''}"


def _words(points: Sequence[RoofPoint]) -> list[Any]:
    """A sentence a point; what is true of several once. Then what incomplete counts lack."""
    told = sentences((point.label, point.words) for point in points)
    lack = sentences((point.label, point.incomplete) for point in points)
    parts: list[Any] = ["", Text("What holds them back", style="bold"), *told] if told else []
    return [*parts, "", Text("Incomplete counts", style="bold"), *lack] if lack else parts


def sentences(pairs: Iterable[tuple[str, str]]) -> list[Text]:
    """Lines of (label, words): the first ones, and the same words once for all of whom they are true."""
    labels: dict[str, list[str]] = {}
    for label, words in dict.fromkeys(pairs):
        if words:
            labels.setdefault(words, []).append(label)
    lines = [f"  {listed(mine, SHARERS_SHOWN)}: {words}" for words, mine in labels.items()]
    if (more := len(lines) - SENTENCES_SHOWN) > 1:
        lines[SENTENCES_SHOWN:] = [f"  and {more} more such sentences: --format csv has all of them"]
    return [Text(clean(line)) for line in lines]


def _crossings(crossings: Sequence[Crossing]) -> Columns:
    heads = [Column("examples a step", right=True), Column("both take equally long at", right=True)]
    table = Columns("Batch sizes", [Column(""), *heads])
    for crossing in crossings:
        table.add(crossing.label, units.show(crossing.batch), units.show(crossing.crossing))
    return table


def _values(points: Iterable[RoofPoint]) -> Iterator[tuple[str, str, Value]]:
    """Of the optional columns nobody is told why they are not there."""
    for point in points:
        for title, field in VALUES.items():
            if title not in ONLY_KNOWN:
                level = LEVELS.get(point.level, point.level)
                yield title, point.label + (f" ({level})" if point.level else ""), getattr(point, field)


def _legend(points: Iterable[RoofPoint]) -> Iterator[tuple[str, Value]]:
    return ((title, getattr(point, field)) for point in points for title, field in VALUES.items())


def as_json(found: Roofline) -> str:
    """JSON (docs/models.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return about.as_json("roofline", found)


def tables(found: Roofline) -> dict[str, flat.Table]:
    """points: a row each; roofs: a row per vertex of a line; ceilings; crossings."""
    return {
        "points": flat.table(RoofPoint, found.points).wider(job=about.jobs(found.about)),
        "roofs": vertices(found.roofs),
        "ceilings": ceilings(found.roofs),
        "crossings": flat.table(Crossing, found.crossings),
    }


def vertices(roofs: Iterable[Roof]) -> flat.Table:
    """The lines of roofs, a row per vertex: join the vertices of a line to draw it, on log axes."""
    columns = ("host", "device", *(f for f in RoofLine._fields if f not in ("intensity", "flops")))
    rows = [
        (roof.host, roof.device, *_described(line), intensity, flops)
        for roof in roofs
        for line in roof.lines
        for intensity, flops in zip(line.intensity, line.flops, strict=True)
    ]
    at = {"intensity_flops_per_byte": "FLOP/byte", "flops_per_second": "FLOP/s"}
    return flat.Table((*columns, *at), rows, at)


def _described(line: RoofLine) -> tuple[Any, ...]:
    return tuple(v for name, v in line._asdict().items() if name not in ("intensity", "flops"))


def ceilings(roofs: Iterable[Roof]) -> flat.Table:
    """Every ceiling of the nodes, also those without a line; `unit` is the unit of `value` and `median`."""
    each = [flat.table(Ceiling, roof.ceilings).wider(host=roof.host) for roof in roofs]
    return flat.joined(each, flat.table(Ceiling, ()).wider(host=""))
