"""The hierarchical roofline: the same FLOP/s over the bytes of each memory level, on a horizontal line."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from roofline.answers.roofline import Roofline, RoofPoint

from . import markers, panels, point_labels, style
from .label_placement import Labels
from .panels import DrawnPoints, RooflineKind, RooflinePanel


def figure(record: Roofline) -> Figure:
    """A panel for each node and device. Raises ClientError when there is nothing to draw."""
    shown = [point for point in record.points if markers.can_be_drawn(point)]
    places = {(point.host, point.device) for point in shown}
    lines = [line for roof in record.roofs if (roof.host, roof.device) in places for line in roof.lines]
    without_points = {line.level for line in lines if line.kind == "memory"} - {p.level for p in shown}
    names = [level.upper() for level in style.LEVEL_MARKERS if level in without_points]
    notes = [f"Bytes of {', '.join(names)}: they were not counted."] if names else []
    return panels.figure(KIND, record._replace(notes=[*notes, *record.notes]))


def draw_on(axes: Axes | Sequence[Axes], record: Roofline) -> None:
    """Draw on these axes, one for each node and device. Errors as of `figure`."""
    panels.draw_on(KIND, axes, record)


def _draw(axis: Axes, labels: Labels, panel: RooflinePanel, start: int) -> DrawnPoints:
    groups = _by_thing(panel.points)
    for own in groups:
        across = sorted(markers.place(p)[0] for p in own)
        height = markers.place(own[0])[1]
        colour = style.colour(own[0].role)
        axis.plot((across[0], across[-1]), (height, height), color=colour, linewidth=0.8, zorder=3)
    markers.draw_points(axis, panel.points, lambda point: style.level_marker(point.level))
    # One name for all levels, at the rightmost point, where there is most room.
    ends = [max(own, key=lambda p: markers.place(p)[0]) for own in groups]
    key = point_labels.name_points(labels, panel.points, point_labels.spots_of(ends), start)
    return DrawnPoints(key)


def _by_thing(points: Sequence[RoofPoint]) -> list[list[RoofPoint]]:
    """The points of each rank, kernel, ... at all levels."""
    things: dict[tuple[str, str, str, str], list[RoofPoint]] = {}
    for point in points:
        things.setdefault((point.label, point.role, point.rank, point.kind), []).append(point)
    return list(things.values())


KIND = RooflineKind(
    "Hierarchical roofline",
    lambda points: "Arithmetic intensity over the traffic of each level (FLOP/byte)",
    _draw,
    by_level=True,
)
