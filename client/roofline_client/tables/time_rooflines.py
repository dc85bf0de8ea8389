"""Complexity and time of kernels or steps, as text and as tables. Contains words and columns, no formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.machines import Ceiling
from roofline.answers.time_roofline import Isocurve, OverheadBox, TimePanel, TimePoint, TimeRoofline
from roofline.phrases import WHOLE_RUN

from . import about, flat, units, wording
from .columns import Column, Columns
from .names import clean
from .rooflines import between, indented, level, place, sentences

POINTS_SHOWN = 40  # of a panel
OF_SHOWN = 3  # ways in which numbers came about
# Title in the text -> the field of a point.
VALUES = {
    "FLOPs": "flops",
    "bytes": "bytes",
    "time": "time",
    "compute time": "compute_time",
    "bandwidth time": "bandwidth_time",
}


def as_text(found: TimeRoofline) -> Group:
    """A panel after the other: what the machine can, where each kernel's time goes, what launches cost."""
    parts: list[Any] = [about.head(found.about, "time-based roofline")]
    values = []  # column, whose it is, value
    for panel in found.panels:
        parts += ["", *_panel(panel, found.over)]
        where = place(panel.host, panel.device)
        values += [("balance", where, panel.balance), ("launch overhead", where, panel.launch_overhead)]
        for point in panel.points:
            values += [(title, point.label, getattr(point, field)) for title, field in VALUES.items()]

    parts += about.reasons(values)
    already_given = {value.reason for _, _, value in values if value.value is None}
    parts += about.notes([note for note in found.notes if note not in already_given])
    return Group(*parts, "", about.legend((title, value) for title, _, value in values))


def _panel(panel: TimePanel, over: str) -> list[Any]:
    ceilings = [
        c for c in (panel.compute, panel.memory) if c and c.name
    ]  # without a name: of an older server
    peaks = [f"{c.name} {units.number(c.value, c.unit)}" for c in ceilings]
    balance = f"balance {units.show(panel.balance)} FLOP/byte"
    launch = f"launch overhead {units.show(panel.launch_overhead)}"
    head = f"{place(panel.host, panel.device)}, {panel.precision or 'no precision'}"
    parts: list[Any] = [Text(clean(f"{head}: {'; '.join([*peaks, balance, launch])}"), style="bold")]

    shown = panel.points[:POINTS_SHOWN]
    if shown:
        parts.append(_points(shown, over))
    if len(panel.points) > len(shown):
        parts.append(Text(wording.more_of_panel(len(panel.points) - len(shown))))
    lines = _remarks(panel, shown)
    pairs = []
    for point in shown:
        subject = point.label
        if point.at:  # in a sweep a kernel is there once for each value of the parameter
            subject += " at " + f"{over} {point.at}".lstrip()
        pairs.append((subject, point.words))
    return [*parts, *indented([*lines, *sentences(pairs)])]


def _points(points: list[TimePoint], over: str) -> Columns:
    swept, spread = any(p.at for p in points), any(p.time_spread for p in points)
    several = len({p.job for p in points}) > 1
    # Without steps the server counts over the whole run, and says so with each number.
    of_step = not any(WHOLE_RUN in point.time.reason for point in points)

    heads = [Column("")]
    if swept:
        heads.append(Column(over or "at"))
    if several:
        heads.append(Column("job"))
    heads += [Column("rank"), Column("launches", right=True)]
    for title in VALUES:
        heads.append(Column("time of a step" if title == "time" and of_step else title, right=True))
    if spread:
        one = "a launch" if points[0].kind == "kernel" else "a step"
        heads.append(Column(f"{one}, 5 to 95 %", right=True))
    table = Columns("", [*heads, Column("bytes of"), Column("bound by")])

    for point in points:
        cells = [point.label + (" (incomplete)" if point.incomplete else "")]
        if swept:
            cells.append(point.at)
        if several:
            cells.append(point.job)
        cells += [point.rank or point.role, f"{point.launches:,}"]
        cells += [units.show(getattr(point, field)) for field in VALUES.values()]
        if spread:
            cells.append(between(point.time_spread, "s"))
        table.add(*cells, level(point), point.bound or "-")
    return table


def _remarks(panel: TimePanel, shown: list[TimePoint]) -> Iterator[str]:
    """What numbers are of, what launches alone cost, what is no point because it has no FLOPs."""
    reasons = list(dict.fromkeys(point.time.reason for point in shown if point.time.reason))
    if reasons:
        more = f", and {len(reasons) - OF_SHOWN} more" if len(reasons) > OF_SHOWN else ""
        yield f"launches, FLOPs, bytes and times are of: {'; or '.join(reasons[:OF_SHOWN])}{more}"
    for box in panel.boxes:
        flops, moved = units.number(box.flops, "FLOP"), units.number(box.bytes, "byte")
        yield f"overhead of {box.label}: hides {flops} or {moved}"
    if panel.no_flop_launches.value:
        took = f", {units.show(panel.no_flop_time)}" if panel.no_flop_time.value is not None else ""
        launches = "launch" if panel.no_flop_launches.value == 1 else "launches"
        yield f"{units.show(panel.no_flop_launches)} {launches} without FLOPs{took}: not in the table"
    for lack in dict.fromkeys(point.incomplete for point in panel.points if point.incomplete):
        yield f"incomplete: {lack}"


def as_json(found: TimeRoofline) -> str:
    """JSON (docs/models.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return about.as_json("time_roofline", found)


def as_csv(found: TimeRoofline) -> str:
    """The first of its tables as CSV."""
    return flat.as_csv(tables(found)["points"])


def tables(found: TimeRoofline) -> dict[str, flat.Table]:
    """points: a row each, with the panel it is in; panels; boxes; isocurves: a row per vertex."""
    panels = flat.table(TimePanel, found.panels)
    panels = flat.beside(panels, flat.table(Ceiling, [p.compute for p in found.panels], "compute_"))
    panels = flat.beside(panels, flat.table(Ceiling, [p.memory for p in found.panels], "memory_"))
    return {
        "points": _of_panels(found.panels, partial(flat.table, TimePoint), "points"),
        "panels": panels,
        "boxes": _of_panels(found.panels, partial(flat.table, OverheadBox), "boxes"),
        "isocurves": _of_panels(found.panels, _vertices, "isocurves"),
    }


def _of_panels(
    panels: Sequence[TimePanel], table: Callable[[Sequence[Any]], flat.Table], field: str
) -> flat.Table:
    """What panels hold in a field, below each other, each row behind the panel it is in."""

    def within(host: str, device: str, precision: str, items: Sequence[Any]) -> flat.Table:
        return table(items).wider(panel_host=host, panel_device=device, panel_precision=precision)

    each = [within(p.host, p.device, p.precision, getattr(p, field)) for p in panels]
    return flat.joined(each, within("", "", "", ()))


def _vertices(curves: Sequence[Isocurve]) -> flat.Table:
    rows = [
        (curve.seconds, moved, flops)
        for curve in curves
        for moved, flops in zip(curve.bytes, curve.flops, strict=True)
    ]
    return flat.Table(("seconds", "bytes", "flops"), rows, {"seconds": "s", "bytes": "byte", "flops": "FLOP"})
