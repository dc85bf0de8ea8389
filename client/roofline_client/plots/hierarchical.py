"""The hierarchical roofline: the same FLOP/s over the traffic of each level, joined by a level line."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from roofline.answers.roofline import Roofline, RoofPoint

from . import marks, panels, point_labels, style
from .label_placement import Labels
from .panels import Drawn, Kind, Panel


def figure(record: Roofline) -> Figure:
    """A panel for each node and device. Raises ClientError when there is nothing to draw."""
    return panels.figure(KIND, record._replace(notes=[*_uncounted(record), *record.notes]))


def draw_on(axes: Axes | Sequence[Axes], record: Roofline) -> None:
    """Draw on these axes, one for each node and device. Errors as of `figure`."""
    panels.draw_on(KIND, axes, record)


def _uncounted(record: Roofline) -> list[str]:
    """Levels of memory that have a ceiling where something ran, and over which nothing is drawn."""
    shown = [point for point in record.points if marks.can_be_drawn(point)]
    places = {(point.host, point.device) for point in shown}
    lines = [line for roof in record.roofs if (roof.host, roof.device) in places for line in roof.lines]
    levels = {line.level for line in lines if line.kind == "memory"} - {point.level for point in shown}
    order = [level for level in style.LEVEL_MARKERS if level in levels]
    return [f"Bytes of {', '.join(level.upper() for level in order)}: nobody counted them."] if order else []


def _draw(axis: Axes, labels: Labels, panel: Panel, start: int) -> Drawn:
    for own in _joined(panel.points):
        across = sorted(marks.place(p)[0] for p in own)
        height = marks.place(own[0])[1]
        colour = style.colour(own[0].role)
        axis.plot((across[0], across[-1]), (height, height), color=colour, linewidth=0.8, zorder=3)
    marks.draw_points(axis, panel.points, lambda point: style.level_marker(point.level))
    # One name for all levels: at the rightmost point, where there is most room.
    ends = [max(own, key=lambda p: marks.place(p)[0]) for own in _joined(panel.points)]
    key = point_labels.name_points(labels, panel.points, point_labels.spots_of(ends), start)
    return Drawn(key)


def _joined(points: Sequence[RoofPoint]) -> list[list[RoofPoint]]:
    """The points of one thing at its levels."""
    things: dict[tuple[str, str, str, str], list[RoofPoint]] = {}
    for point in points:
        things.setdefault((point.label, point.role, point.rank, point.kind), []).append(point)
    return list(things.values())


def _across(points: Sequence[RoofPoint]) -> str:
    return "Arithmetic intensity over the traffic of each level (FLOP/byte)"


KIND = Kind("Hierarchical roofline", _across, _draw, by_level=True)
