"""The network roofline: FLOPs per byte communicated under the compute peak and the network's ceiling, the
ridge between them, and the batch size at which a rank crosses it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from roofline.answers.roofline import Crossing, Roofline, RoofPoint

from ..tables import units
from . import marks, omissions, panels, roofline, roofs, style
from .label_placement import Labels
from .panels import Drawn, Kind, Panel


def figure(record: Roofline) -> Figure:
    """A panel for each node. Raises ClientError when there is nothing to draw."""
    said = [*_words(record.crossings), *record.notes]
    return panels.figure(_kind(record), record._replace(notes=said))


def draw_on(axes: Axes | Sequence[Axes], record: Roofline) -> None:
    """Draw on these axes, one for each node. Errors as of `figure`."""
    panels.draw_on(_kind(record), axes, record)


def _words(crossings: Sequence[Crossing]) -> list[str]:
    """What is said of each rank; of those with the same words, but for numbers, once."""
    return omissions.merged([(crossing.label, crossing.words) for crossing in crossings if crossing.words])


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
        groups = _on_one_spot(labels, panel, here, at)
        for group in groups:
            _cross(axis, labels, group, at)
        return drawn._replace(more=[_explained()] if groups else [])

    return Kind("Network roofline", _across, draw)


def _ridge(crossings: Sequence[Crossing]) -> float | None:
    """Where the node of a panel balances; None: not known, or not the same of all (several precisions)."""
    known = {crossing.ridge.value for crossing in crossings if crossing.ridge.value is not None}
    return known.pop() if len(known) == 1 else None


Group = list[tuple[Crossing, RoofPoint]]


def _on_one_spot(labels: Labels, panel: Panel, crossings: Sequence[Crossing], ridge: float) -> list[Group]:
    """Ranks left of the ridge that will cross it, together where they stand within a marker or two."""
    groups: list[Group] = []
    for crossing in crossings:
        point = next(p for p in panel.points if p.label == crossing.label)
        if crossing.crossing.value is None or marks.place(point)[0] >= ridge:
            continue
        for group in groups:
            first = group[0][1]
            near = labels.distance(marks.place(first), marks.place(point)) < 2 * style.MARKER
            if first.role == point.role and near:
                group.append((crossing, point))
                break
        else:
            groups.append([(crossing, point)])
    return groups


def _cross(axis: Axes, labels: Labels, group: Group, ridge: float) -> None:
    """An arrow from the point in the middle to the ridge with the batch size at which it gets there."""
    point = sorted((p for _, p in group), key=lambda p: marks.place(p)[1])[len(group) // 2]
    x, y = marks.place(point)
    looks = {"color": style.colour(point.role), "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
    arrow = {"arrowstyle": "->,head_width=0.15,head_length=0.3", "shrinkA": 5.0, "shrinkB": 0.0, **looks}
    axis.annotate("", (ridge, y), (x, y), arrowprops=arrow, zorder=3).set_in_layout(False)
    # The shaft again, as a line that labels keep off.
    axis.add_line(Line2D((x, ridge), (y, y), alpha=0.0))
    # Examples are whole; the factor is for what floats make of a whole number.
    batches = sorted(math.ceil((crossing.crossing.value or 0.0) * (1 - 1e-9)) for crossing, _ in group)
    told = " to ".join(dict.fromkeys(f"{batch:,}" for batch in (batches[0], batches[-1])))
    labels.at_point(ridge, y, f"at batch {told}", style.colour(point.role), size=0.0)


def _explained() -> Line2D:
    look: dict[str, Any] = {"color": style.DIM, "linestyle": ":", "linewidth": 0.9}
    return Line2D([], [], label="batch size that hides the network", **look)


def _across(points: Sequence[RoofPoint]) -> str:
    return "FLOPs per byte communicated (FLOP/byte)"
