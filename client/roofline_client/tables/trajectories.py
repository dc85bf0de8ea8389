"""Roles over an experiment, as text and as tables. Knows words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.trajectory import Path, Stop, Trajectory
from roofline.answers.values import Value

from . import about, flat, units
from .columns import Column, Columns
from .names import clean
from .rooflines import LEVELS, ceilings, cell, vertices

# Title in the text -> the field of a stop's point, then those of the stop itself.
OF_POINT = {"FLOP/s per node": "flops_per_second", "FLOP/byte": "intensity", "headroom": "headroom"}
OF_STOP = {
    "throughput": "throughput",
    "speedup": "speedup",
    "efficiency": "efficiency",
    "step time (median)": "step_time",
}


def as_text(found: Trajectory) -> Group:
    """A table a role, its stops in order, with what the path says under it."""
    parts: list[Any] = [about.head(found.about, f"scaling over {found.over}")]
    for path in found.paths:
        parts += ["", _path(found.over, path)]
        parts += [Text(clean(f"  {path.words}"))] if path.words else []
    every = [named for path in found.paths for named in _values(path)]
    parts += about.reasons(every)
    parts += about.notes(found.notes)
    return Group(*parts, "", about.legend((title, value) for title, _, value in every))


def _path(over: str, path: Path) -> Columns:
    heads = [Column(over or "at"), Column("jobs", folds=True)]
    heads += [Column(title, right=True) for title in (*OF_POINT, *OF_STOP)]
    table = Columns(path.role, [*heads, Column("bytes"), Column("roof")])
    for stop in path.stops:
        cells = [cell(title, getattr(stop.point, field)) for title, field in OF_POINT.items()]
        cells += [_of_stop(title, getattr(stop, field)) for title, field in OF_STOP.items()]
        level = LEVELS.get(stop.point.level, stop.point.level)
        at = stop.at + (" (incomplete)" if stop.point.incomplete else "")
        table.add(at, ", ".join(stop.jobs), *cells, level, stop.point.bound or "-")
    return table


def _of_stop(title: str, value: Value) -> str:
    """A throughput has one of several units, which it says; an efficiency is a share."""
    if title == "efficiency":
        return units.share(value)
    shown = units.show(value)
    if shown == "-":
        return shown
    return {"throughput": f"{shown} {value.unit}", "speedup": f"{shown}x"}.get(title, shown)


def _values(path: Path) -> Iterator[tuple[str, str, Value]]:
    for stop in path.stops:
        subject = f"{path.role} at {stop.at}"
        yield from ((title, subject, getattr(stop.point, field)) for title, field in OF_POINT.items())
        yield from ((title, subject, getattr(stop, field)) for title, field in OF_STOP.items())


def as_json(found: Trajectory) -> str:
    """JSON (docs/models.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return about.as_json("trajectory", found)


def tables(found: Trajectory) -> dict[str, flat.Table]:
    """stops: a row each, in order, role after role; paths: a role's sentence; roofs, ceilings."""
    each = [flat.table(Stop, path.stops).wider(path=path.role, over=found.over) for path in found.paths]
    return {
        "stops": flat.joined(each, flat.table(Stop, ()).wider(path="", over="")),
        "paths": flat.table(Path, found.paths),
        "roofs": vertices(found.roofs),
        "ceilings": ceilings(found.roofs),
    }
