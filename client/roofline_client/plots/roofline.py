"""The classic roofline (Williams, Waterman, Patterson 2009): ceilings, and what ran beneath them."""

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
    return panels.figure(KIND, record)


def draw_on(axes: Axes | Sequence[Axes], record: Roofline) -> None:
    """Draw on these axes, one for each node and device. Errors as of `figure`."""
    panels.draw_on(KIND, axes, record)


def draw_points(axis: Axes, labels: Labels, panel: RooflinePanel, start: int) -> DrawnPoints:
    """Markers, names and headroom of all points of a panel."""
    named = point_labels.spots_of(panel.points)
    markers.draw_points(axis, panel.points, lambda point: style.marker(point.role))
    key = point_labels.name_points(labels, panel.points, named, start)
    return DrawnPoints(key, point_labels.arrows(axis, labels, named, start))


def across_of(points: Sequence[RoofPoint]) -> str:
    """Which bytes the intensity is over."""
    found = {markers.level_name(p.level) for p in points}
    levels = " or ".join(sorted(found, key=str.casefold)) or "memory traffic"
    return f"Arithmetic intensity over {levels} (FLOP/byte)"


KIND = RooflineKind("Roofline", across_of, draw_points)
