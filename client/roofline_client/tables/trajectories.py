"""Roles over an experiment, as text and as tables. Contains words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.roofline import RoofPoint
from roofline.answers.trajectory import Path, Stop, Trajectory

from . import about, flat, units
from .columns import Column, Columns
from .names import clean
from .rooflines import ceilings, cell, level, vertices

# Title in the text -> the field of a stop's point, then those of the stop itself.
OF_POINT = {"FLOP/byte": "intensity", "headroom": "headroom"}
OF_STOP = {
    "throughput": "throughput",
    "speedup": "speedup",
    "efficiency": "efficiency",
    "step time (median)": "step_time",
}


def as_text(found: Trajectory) -> Group:
    """A table a role, its stops in order, with what the path says under it."""
    parts: list[Any] = [about.head(found.about, f"scaling over {found.over}")]
    values = []  # column, whose it is, value
    for path in found.paths:
        parts += ["", _path(found.over, path)]
        if path.words:
            parts.append(Text(clean(f"  {path.words}")))
        for stop in path.stops:
            subject = f"{path.role} at {stop.at}"
            values += [
                (title, subject, getattr(stop.point, field)) for title, field in _of_point(path).items()
            ]
            values += [(title, subject, getattr(stop, field)) for title, field in OF_STOP.items()]
    parts += about.reasons(values)
    parts += about.notes(found.notes)
    return Group(*parts, "", about.legend((title, value) for title, _, value in values))


def _path(over: str, path: Path) -> Columns:
    heads = [Column(over or "at"), Column("jobs", folds=True)]
    of_point = _of_point(path)
    heads += [Column(title, right=True) for title in (*of_point, *OF_STOP)]
    table = Columns(path.role, [*heads, Column("bytes"), Column("roof")])
    for stop in path.stops:
        point = stop.point
        throughput, speedup = units.show(stop.throughput), units.show(stop.speedup)
        # A throughput has one of several units, and names it.
        if stop.throughput.value is not None:
            throughput += f" {stop.throughput.unit}"
        if stop.speedup.value is not None:
            speedup += "x"
        table.add(
            f"{stop.at} (incomplete)" if point.incomplete else stop.at,
            ", ".join(stop.jobs),
            *(cell(title, getattr(point, field)) for title, field in of_point.items()),
            throughput,
            speedup,
            units.share(stop.efficiency),
            units.show(stop.step_time),
            level(point),
            point.bound or "-",
        )
    return table


def _of_point(path: Path) -> dict[str, str]:
    reached = f"FLOP/s per {node_or_gpu(stop.point for stop in path.stops)}"
    return {reached: "flops_per_second", **OF_POINT}


def node_or_gpu(points: Iterable[RoofPoint]) -> str:
    """What the FLOP/s of these points are of."""
    on_gpu = {bool(point.device) for point in points if point.flops_per_second.value is not None}
    if len(on_gpu) > 1:
        return "GPU or node"
    return "GPU" if on_gpu == {True} else "node"


def as_json(found: Trajectory) -> str:
    """JSON (docs/models.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return about.as_json("trajectory", found)


def as_csv(found: Trajectory) -> str:
    """The first of its tables as CSV."""
    return flat.as_csv(tables(found)["stops"])


def tables(found: Trajectory) -> dict[str, flat.Table]:
    """stops: a row each, in order, role after role; paths: a role's sentence; roofs, ceilings."""
    each = [flat.table(Stop, path.stops).wider(path=path.role, over=found.over) for path in found.paths]
    return {
        "stops": flat.joined(each, flat.table(Stop, ()).wider(path="", over="")),
        "paths": flat.table(Path, found.paths),
        "roofs": vertices(found.roofs),
        "ceilings": ceilings(found.roofs),
    }
