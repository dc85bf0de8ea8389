"""The roofline of the page: roles under the roofs of their nodes, as a picture and as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roofline.answers.roofline import Roof, Roofline, RoofPoint

from ..plots import style
from ..tables import units
from ..tables.columns import Column, Columns
from .plotly_parts import ABOVE, MOST_RANKS, Figure, add_left_out, in_template, instead, origin, plain

TRAIL_S = (10.0, 60.0, 600.0)  # where a role was so long ago
FORMULA = "FLOP/s = FLOPs of the steps / their time; intensity = FLOPs / bytes"
AXIS = {"type": "log", "exponentformat": "SI", "dtick": 1}  # a line each decade: others' numbers overlap
MARGIN = 0.1  # decades, so that numbers of both axes do not meet in the corner
MOST_LABELS = 6  # roofs that are named in the picture, not only when they are pointed at
MOST_IN_LEGEND = 12  # points; more would leave no room for the picture: they are named when pointed at


def roofline_table(found: Roofline) -> Columns:
    """A row a point: FLOP/s, intensity, and the roof above it."""
    names = ("FLOP/s", "FLOP/byte", "attainable")
    table = Columns("", [Column("point"), *(Column(name, right=True) for name in names), Column("bound by")])
    for point in found.points[:MOST_RANKS]:
        values = (point.flops_per_second, point.intensity, point.attainable)
        table.add(point.label, *map(units.show, values), point.bound or "-")
    add_left_out(table, len(found.points))
    return table


@style.one_picture
def roofline(
    found: Roofline, trails: Mapping[str, Sequence[tuple[float, float, float]]], steps: str
) -> Figure:
    """Roles under the roofs of their nodes. trails: of each point's label, oldest first, how long ago (s),
    and intensity and FLOP/s then; steps: which ones the points are of, in words."""
    points = [point for point in found.points if has_place(point)]
    data: list[Any] = placed_roofs(found)
    for point in points:
        trail = trails.get(point.label, ())
        if trail:
            data.append(_trail(point, trail))
        data.append(point_trace(point, steps))
    layout = plane(data, 380)
    if not points:
        layout["annotations"] = [instead(next(iter(found.notes), "no FLOPs and bytes are known yet"))]
    return {"data": data, "layout": layout}


def plane(data: Sequence[Figure], height: int) -> Figure:
    """The layout of a roofline that has these lines and points: whole decades, roofs with their names."""
    return {
        "height": height,
        "xaxis": {**AXIS, **_decades(data, "x"), "title": {"text": "arithmetic intensity (FLOP/byte)"}},
        "yaxis": {**AXIS, **_decades(data, "y"), "title": {"text": "FLOP/s"}},
        "legend": ABOVE,
        "showlegend": sum(one.get("showlegend", True) for one in data) <= MOST_IN_LEGEND,
        "annotations": _roof_labels([one for one in data if one["mode"] == "lines"]),
    }


def _decades(data: Iterable[Figure], axis: str) -> Figure:
    numbers = [number for one in data for number in one[axis] if number and number > 0]
    if not numbers:
        return {}
    first, last = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    return {"range": [first - MARGIN, last + MARGIN]}


def _roof_labels(roofs: Sequence[Figure]) -> list[Figure]:
    """Of a peak at its right end, of a memory next to the middle of its slope."""
    labels = []
    for one in roofs[:MOST_LABELS]:
        x, y = ([math.log10(number) for number in one[axis]] for axis in ("x", "y"))
        if y[0] == y[-1]:
            place = {"x": x[-1], "y": y[-1], "xanchor": "right", "yanchor": "bottom"}
        else:
            place = {"x": (x[0] + x[-1]) / 2, "y": (y[0] + y[-1]) / 2, "xanchor": "left", "yanchor": "top"}
        labels.append({**place, "text": one["name"], "showarrow": False, "font": {"size": 11}})
    return labels


def placed_roofs(found: Roofline) -> list[Figure]:
    """The roofs that its points are under."""
    points = [point for point in found.points if has_place(point)]
    roofs = _of_points(found.roofs, points)
    return [roof_line(roof.host, line) for roof in roofs for line in roof.lines if line.binding]


def has_place(point: RoofPoint) -> bool:
    return bool(point.intensity.value and point.flops_per_second.value)


def _of_points(roofs: Iterable[Roof], points: Sequence[RoofPoint]) -> list[Roof]:
    """The roofs that something is under, one of each shape."""
    used = {(point.host, point.device) for point in points}
    shapes = {
        tuple((line.name, *line.flops) for line in roof.lines if line.binding): roof
        for roof in roofs
        if not points or (roof.host, roof.device) in used or not any(host for host, _ in used)
    }
    return list(shapes.values())


def roof_line(host: str, line: Any) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(line.label),
        "x": line.intensity,
        "y": line.flops,
        "line": {"color": style.FAINT, "width": 1.5},
        "hovertemplate": "%{fullData.name} of " + in_template(host) + f" ({line.provenance})<extra></extra>",
        "showlegend": False,
    }


def point_trace(point: RoofPoint, steps: str = "") -> Figure:
    """steps: which ones it is of, in words."""
    intensity, flops = point.intensity, point.flops_per_second
    words = [
        steps,
        f"{units.show(flops)} ({origin(flops)})",
        f"{units.show(intensity)} FLOP/byte of {point.level} ({origin(intensity)})",
        point.words,
        point.incomplete,
        FORMULA,
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(point.label),
        "x": [intensity.value],
        "y": [flops.value],
        "marker": {"color": style.colour(point.role), "size": 12, "line": {"color": "white", "width": 1}},
        "customdata": ["<br>".join(plain(word) for word in words if word)],
        "hovertemplate": "<b>%{fullData.name}</b><br>%{customdata}<extra></extra>",
    }


def _trail(point: RoofPoint, trail: Sequence[tuple[float, float, float]]) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"{plain(point.label)}, before",
        "x": [intensity for _, intensity, _ in trail] + [point.intensity.value],
        "y": [flops for _, _, flops in trail] + [point.flops_per_second.value],
        "customdata": [f"{units.number(ago, 's')} ago" for ago, _, _ in trail] + ["now"],
        "hovertemplate": "%{fullData.name}: %{customdata}<extra></extra>",
        "line": {"color": style.colour(point.role), "width": 1.5},
        "marker": {"color": style.colour(point.role), "size": 6, "opacity": 0.7},
        "opacity": 0.85,
        "showlegend": False,
    }
