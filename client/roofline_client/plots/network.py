"""The network roofline: FLOPs per byte communicated under the compute peak and the network's ceiling, the
ridge between them, and the batch size at which a rank crosses it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .. import model_records, units
from ..model_records import Crossing, Roofline, RoofPoint
from . import lacking, marks, panels, roofline, roofs, style
from .labels import Labels
from .panels import Drawn, Kind, Panel


def figure(record: model_records.Roofline) -> Figure:
    """A panel for each node. Raises ClientError when there is nothing to draw."""
    said = [*_words(record.crossings), *record.notes]
    return panels.figure(_kind(record), record._replace(notes=said))


def draw_on(axes: Axes | Sequence[Axes], record: model_records.Roofline) -> None:
    """Draw on these axes, one for each node. Errors as of `figure`."""
    panels.draw_on(_kind(record), axes, record)


def _words(crossings: Sequence[Crossing]) -> list[str]:
    """What is said of each rank; of those with the same words, but for numbers, once."""
    return lacking.together([(crossing.label, crossing.words) for crossing in crossings if crossing.words])


def _kind(record: Roofline) -> Kind:
    def draw(axis: Axes, labels: Labels, panel: Panel, start: int) -> Drawn:
        drawn = roofline.draw_points(axis, labels, panel, start)
        shown = {point.label for point in panel.points}
        here = [crossing for crossing in record.crossings if crossing.label in shown]
        at = _ridge(here)
        if at is None or at > axis.get_xlim()[1]:
            return drawn
        # The roof of one of several GPUs turns flat earlier: it has a peak of its own, not a network.
        whose = "of the node " if any(point.device for point in panel.points) else ""
        flat = (roofs.height(line) for line in panel.lines if line.binding and not roofs.is_slanting(line))
        top = max(flat, default=axis.get_ylim()[1])
        ridge = Line2D((at, at), (axis.get_ylim()[0], top), color=style.FAINT, linewidth=0.8, linestyle=":")
        ridge.set_zorder(1.9)
        axis.add_line(ridge)
        labels.may_cross(ridge)
        labels.at_point(
            at,
            axis.get_ylim()[0] * 1.6,
            f"ridge {whose}{units.number(at, 'FLOP/byte')} FLOP/byte",
            style.DIM,
            size=0.0,
        )
        told: set[str] = set()
        crossed = [_cross(axis, labels, panel, crossing, at, told) for crossing in here]
        return drawn._replace(more=[_explained()] if any(crossed) else [])

    return Kind("Network roofline", _across, draw)


def _ridge(crossings: Sequence[Crossing]) -> float | None:
    """Where the node of a panel balances; None: not known, or not the same of all (several precisions)."""
    known = {crossing.ridge.value for crossing in crossings if crossing.ridge.value is not None}
    return known.pop() if len(known) == 1 else None


def _cross(
    axis: Axes, labels: Labels, panel: Panel, crossing: Crossing, ridge: float, said: set[str]
) -> bool:
    """An arrow from the point to the ridge with the batch size at which it gets there; said: such sizes."""
    batch = crossing.crossing.value
    points = [p for p in panel.points if p.label == crossing.label]
    if not points or batch is None:
        return False
    x, y = marks.place(points[0])
    if x >= ridge:
        return False
    looks = {"color": style.colour(points[0].role), "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
    arrow = {"arrowstyle": "->,head_width=0.15,head_length=0.3", "shrinkA": 5.0, "shrinkB": 0.0, **looks}
    axis.annotate("", (ridge, y), (x, y), arrowprops=arrow, zorder=3).set_in_layout(False)
    # The shaft again, as a line that labels keep off.
    axis.add_line(Line2D((x, ridge), (y, y), alpha=0.0))
    # Examples are whole; the factor is for what floats make of a whole number.
    told = f"at batch {math.ceil(batch * (1 - 1e-9)):,}"
    if told not in said:
        labels.at_point(ridge, y, told, style.colour(points[0].role), size=0.0)
        said.add(told)
    return True


def _explained() -> Line2D:
    look: dict[str, Any] = {"color": style.DIM, "linestyle": ":", "linewidth": 0.9}
    return Line2D([], [], label="batch size that hides the network", **look)


def _across(points: Sequence[RoofPoint]) -> str:
    return "FLOPs per byte communicated (FLOP/byte)"
