"""Points against their roofs, as text and as tables. Contains words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.machines import Ceiling
from roofline.answers.roofline import Crossing, Roof, RoofLine, Roofline, RoofPoint
from roofline.answers.time_roofline import TimePoint
from roofline.answers.values import Spread, Value
from roofline.texts import listed

from . import about, flat, units, wording
from .columns import Column, Columns
from .names import clean, natural

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
    for roof in found.roofs:
        binding = ", ".join(line.label for line in roof.lines if line.binding)
        note = f" ({roof.note})" if roof.note else ""
        line = f"roof of {place(roof.host, roof.device)}: {binding or 'none measured'}{note}"
        parts.append(Text(clean(line)))
    if shown:
        parts += ["", _points(shown)]
    if len(found.points) > len(shown):
        parts.append(Text(wording.more_points(len(found.points) - len(shown))))
    parts += about.section(wording.POINT_VERDICTS, sentences((p.label, p.words) for p in shown))
    parts += about.section(wording.INCOMPLETE_COUNTS, sentences((p.label, p.incomplete) for p in shown))
    if found.crossings:
        parts += ["", _crossings(found.crossings)]
        parts += indented(sentences((c.label, c.words) for c in found.crossings))

    values = []
    for point in found.points:
        subject = f"{point.label} ({level(point)})" if point.level else point.label
        for title, field in VALUES.items():
            # Of the optional columns nobody needs to know why they are not there.
            if title not in ONLY_KNOWN:
                values.append((title, subject, getattr(point, field)))
    parts += about.reasons(values)
    parts += about.notes(found.notes)
    legend = ((title, getattr(point, field)) for point in shown for title, field in VALUES.items())
    return Group(*parts, "", about.legend(legend))


def in_order(points: Iterable[RoofPoint]) -> list[RoofPoint]:
    """Roles, ranks and steps by their names; phases of a rank, kernels and layers as they came, by time."""

    def key(point: RoofPoint) -> tuple[str | int, ...]:
        if point.kind in ("kernel", "layer"):
            return ()
        return natural(point.rank if point.kind == "phase" else point.label)

    return sorted(points, key=key)


def level(point: RoofPoint | TimePoint) -> str:
    """Which bytes its intensity is over, for people."""
    return LEVELS.get(point.level, point.level)


def place(host: str, device: str) -> str:
    """ "node1" of its CPUs, "node1 gpu 0" of a device."""
    return f"{host or '-'} {device}".rstrip()


def _points(points: Sequence[RoofPoint]) -> Columns:
    titles = []
    for title, field in VALUES.items():
        if title not in ONLY_KNOWN or any(getattr(point, field).value for point in points):
            titles.append(title)
    heads = [Column(""), Column("bytes"), *(Column(title, right=True) for title in titles)]
    spread = any(point.flops_spread for point in points)
    if spread:
        one = "a launch" if points[0].kind == "kernel" else "a step"
        heads.append(Column(f"FLOP/s of {one}, 5 to 95 %", right=True))
    table = Columns(wording.POINTS, [*heads, Column("roof"), Column("precision")])

    for point in points:
        label = f"{point.label} @{place(point.host, point.device)}"
        if point.incomplete:
            label += " (incomplete)"
        cells = [cell(title, getattr(point, VALUES[title])) for title in titles]
        if spread:
            cells.append(between(point.flops_spread, "FLOP/s"))
        table.add(label, level(point), *cells, point.bound or "-", point.precision or "-")
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


def sentences(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of (label, words): the first ones, and the same words once for all for which they are true."""
    labels: dict[str, list[str]] = {}
    for label, words in dict.fromkeys(pairs):
        if words:
            labels.setdefault(words, []).append(label)
    lines = [f"{listed(mine, SHARERS_SHOWN)}: {words}" for words, mine in labels.items()]
    if (more := len(lines) - SENTENCES_SHOWN) > 1:
        lines[SENTENCES_SHOWN:] = [wording.more_sentences(more)]
    return lines


def indented(lines: Iterable[str]) -> list[Text]:
    return [Text(clean(f"  {line}")) for line in lines]


def _crossings(crossings: Sequence[Crossing]) -> Columns:
    heads = [Column("examples a step", right=True), Column("computation = communication at", right=True)]
    table = Columns(wording.BATCH_SIZES, [Column(""), *heads])
    for crossing in crossings:
        table.add(crossing.label, units.show(crossing.batch), units.show(crossing.crossing))
    return table


def as_json(found: Roofline) -> str:
    """JSON (docs/models.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return about.as_json("roofline", found)


def as_csv(found: Roofline) -> str:
    """The first of its tables as CSV."""
    return flat.as_csv(tables(found)["points"])


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
    of_line = [field for field in RoofLine._fields if field not in ("intensity", "flops")]
    rows = []
    for roof in roofs:
        for line in roof.lines:
            about_line = [getattr(line, field) for field in of_line]
            for intensity, flops in zip(line.intensity, line.flops, strict=True):
                rows.append((roof.host, roof.device, *about_line, intensity, flops))
    at = {"intensity_flops_per_byte": "FLOP/byte", "flops_per_second": "FLOP/s"}
    return flat.Table(("host", "device", *of_line, *at), rows, at)


def ceilings(roofs: Iterable[Roof]) -> flat.Table:
    """Every ceiling of the nodes, also those without a line; `unit` is the unit of `value` and `median`."""
    each = [flat.table(Ceiling, roof.ceilings).wider(host=roof.host) for roof in roofs]
    return flat.joined(each, flat.table(Ceiling, ()).wider(host=""))
