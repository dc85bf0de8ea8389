"""Complexity and time of kernels or steps, as text and as tables. Knows words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.machines import Ceiling
from roofline.answers.time_roofline import Isocurve, OverheadBox, TimePanel, TimePoint, TimeRoofline
from roofline.answers.values import Value

from . import about, flat, units
from .columns import Column, Columns
from .names import clean
from .rooflines import LEVELS, between, place, sentences

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
    for panel in found.panels:
        parts += ["", *_panel(panel, found.over)]
    every = [value for panel in found.panels for value in _values(panel)]
    parts += about.reasons(every)
    told = {value.reason for _, _, value in every if value.value is None}
    parts += about.notes([note for note in found.notes if note not in told])
    return Group(*parts, "", about.legend(_legend(found)))


def _panel(panel: TimePanel, over: str) -> list[Any]:
    shown = panel.points[:POINTS_SHOWN]
    parts: list[Any] = [_machine(panel)]
    if shown:
        parts.append(_points(shown, over))
    if more := len(panel.points) - len(shown):
        parts.append(Text(f"and {more:,} more: --format csv has all of them"))
    parts += [Text(clean(f"  {line}")) for line in (*_of_what(shown), *_launches(panel))]
    return [*parts, *sentences((_subject(point, over), point.words) for point in shown)]


def _subject(point: TimePoint, over: str) -> str:
    """In a sweep a kernel is there once for each value of the parameter."""
    return f"{point.label} at {f'{over} '.lstrip()}{point.at}" if point.at else point.label


def _of_what(points: list[TimePoint]) -> Iterator[str]:
    """What the numbers are of: a mean or median step, or the whole run."""
    said = list(dict.fromkeys(point.time.reason for point in points if point.time.reason))
    if said:
        more = f", and {len(said) - OF_SHOWN} more" if len(said) > OF_SHOWN else ""
        yield f"launches, FLOPs, bytes and times are of: {'; or '.join(said[:OF_SHOWN])}{more}"


def _machine(panel: TimePanel) -> Text:
    peaks = "; ".join(_ceiling(c) for c in (panel.compute, panel.memory) if c.name)
    balance = f"balance {units.show(panel.balance)} FLOP/byte"
    launch = f"launch overhead {units.show(panel.launch_overhead)}"
    head = f"{place(panel.host, panel.device)}, {panel.precision or 'no precision'}"
    return Text(clean(f"{head}: {'; '.join(filter(None, (peaks, balance, launch)))}"), style="bold")


def _ceiling(ceiling: Ceiling) -> str:
    return f"{ceiling.name} {units.number(ceiling.value, ceiling.unit)}"


def _points(points: list[TimePoint], over: str) -> Columns:
    swept, spread = any(p.at for p in points), any(p.time_spread for p in points)
    several = len({p.job for p in points}) > 1
    heads = [Column(""), *([Column(over or "at")] if swept else []), *([Column("job")] if several else [])]
    heads.append(Column("rank"))
    heads += [
        Column("launches", right=True),
        *(Column(_title(title, points), right=True) for title in VALUES),
    ]
    one = "a launch" if points[0].kind == "kernel" else "a step"
    heads += [Column(f"{one}, 5 to 95 %", right=True)] if spread else []
    table = Columns("", [*heads, Column("bytes of"), Column("bound by")])
    for point in points:
        cells = [point.label + (" (incomplete)" if point.incomplete else ""), *([point.at] if swept else [])]
        cells += [point.job] if several else []
        cells += [point.rank or point.role, f"{point.launches:,}"]
        cells += [units.show(getattr(point, field)) for field in VALUES.values()]
        cells += [between(point.time_spread, "s")] if spread else []
        table.add(*cells, LEVELS.get(point.level, point.level), point.bound or "-")
    return table


def _title(title: str, points: list[TimePoint]) -> str:
    """Without steps the server counts over the whole run, and says so with each number."""
    if title != "time" or any("whole run" in point.time.reason for point in points):
        return title
    return "time of a step"


def _launches(panel: TimePanel) -> Iterator[str]:
    """What launches alone cost, and what is no point because it has no FLOPs."""
    for box in panel.boxes:
        flops, moved = units.number(box.flops, "FLOP"), units.number(box.bytes, "byte")
        yield f"overhead of {box.label}: hides {flops} or {moved}"
    if panel.no_flop_launches.value:
        took = f", {units.show(panel.no_flop_time)}" if panel.no_flop_time.value is not None else ""
        launches = "launch" if panel.no_flop_launches.value == 1 else "launches"
        yield f"{units.show(panel.no_flop_launches)} {launches} without FLOPs{took}: not in the table"
    lacks = dict.fromkeys(point.incomplete for point in panel.points if point.incomplete)
    yield from (f"incomplete: {lack}" for lack in lacks)


def _values(panel: TimePanel) -> Iterator[tuple[str, str, Value]]:
    where = place(panel.host, panel.device)
    yield "balance", where, panel.balance
    yield "launch overhead", where, panel.launch_overhead
    for point in panel.points:
        for title, field in VALUES.items():
            yield title, point.label, getattr(point, field)


def _legend(found: TimeRoofline) -> Iterator[tuple[str, Value]]:
    for panel in found.panels:
        yield "balance", panel.balance
        yield "launch overhead", panel.launch_overhead
        for point in panel.points:
            yield from ((title, getattr(point, field)) for title, field in VALUES.items())


def as_json(found: TimeRoofline) -> str:
    """JSON (docs/models.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return about.as_json("time_roofline", found)


def tables(found: TimeRoofline) -> dict[str, flat.Table]:
    """points: a row each, with the panel it is in; panels; boxes; isocurves: a row per vertex."""
    return {
        "points": _inside(found.panels, TimePoint, "points"),
        "panels": _panels(found.panels),
        "boxes": _inside(found.panels, OverheadBox, "boxes"),
        "isocurves": flat.joined([_isocurves(p) for p in found.panels], _in_panel(None, _vertices(()))),
    }


def _in_panel(panel: TimePanel | None, table: flat.Table) -> flat.Table:
    host, device, precision = (panel.host, panel.device, panel.precision) if panel else ("", "", "")
    return table.wider(panel_host=host, panel_device=device, panel_precision=precision)


def _inside(panels: Iterable[TimePanel], kind: type, field: str) -> flat.Table:
    each = [_in_panel(panel, flat.table(kind, getattr(panel, field))) for panel in panels]
    return flat.joined(each, _in_panel(None, flat.table(kind, ())))


def _panels(panels: list[TimePanel]) -> flat.Table:
    table = flat.table(TimePanel, panels)
    for prefix, of in (("compute", [p.compute for p in panels]), ("memory", [p.memory for p in panels])):
        table = flat.beside(table, flat.table(Ceiling, of, f"{prefix}_"))
    return table


def _isocurves(panel: TimePanel) -> flat.Table:
    return _in_panel(panel, _vertices(panel.isocurves))


def _vertices(curves: Iterable[Isocurve]) -> flat.Table:
    rows = [
        (curve.seconds, moved, flops)
        for curve in curves
        for moved, flops in zip(curve.bytes, curve.flops, strict=True)
    ]
    return flat.Table(("seconds", "bytes", "flops"), rows, {"seconds": "s", "bytes": "byte", "flops": "FLOP"})
