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
from . import markers, omissions, panels, roofline, roofs, style
from .label_placement import Labels
from .panels import DrawnPoints, RooflineKind, RooflinePanel


def figure(record: Roofline) -> Figure:
    """A panel for each node. Raises ClientError when there is nothing to draw."""
    words = [(crossing.label, crossing.words) for crossing in record.crossings if crossing.words]
    return panels.figure(_kind(record), record._replace(notes=[*omissions.merged(words), *record.notes]))


def draw_on(axes: Axes | Sequence[Axes], record: Roofline) -> None:
    """Draw on these axes, one for each node. Errors as of `figure`."""
    panels.draw_on(_kind(record), axes, record)


def _kind(record: Roofline) -> RooflineKind:
    def draw(axis: Axes, labels: Labels, panel: RooflinePanel, start: int) -> DrawnPoints:
        drawn = roofline.draw_points(axis, labels, panel, start)
        shown = {point.label for point in panel.points}
        here = [crossing for crossing in record.crossings if crossing.label in shown]
        # None, or several for ranks of different precision: no line to draw.
        ridges = {crossing.ridge.value for crossing in here if crossing.ridge.value is not None}
        if len(ridges) != 1 or max(ridges) > axis.get_xlim()[1]:
            return drawn
        at = ridges.pop()
        # One of several GPUs has a ridge of its own further left: a lower peak over the same network.
        owner = "of the node " if any(point.device for point in panel.points) else ""
        flat = (roofs.height(line) for line in panel.lines if line.binding and not roofs.is_slanting(line))
        top = max(flat, default=axis.get_ylim()[1])
        ridge = Line2D((at, at), (axis.get_ylim()[0], top), color=style.FAINT, linewidth=0.8, linestyle=":")
        ridge.set_zorder(1.9)
        axis.add_line(ridge)
        labels.may_cross(ridge)
        labels.at_point(
            at,
            axis.get_ylim()[0] * 1.6,
            f"ridge {owner}{units.number(at, 'FLOP/byte')} FLOP/byte",
            style.DIM,
            size=0.0,
        )
        groups = _groups_left_of(at, labels, panel, here)
        for group in groups:
            _draw_crossing(axis, labels, group, at)
        if groups:
            look: dict[str, Any] = {"color": style.DIM, "linestyle": ":", "linewidth": 0.9}
            return drawn._replace(more=[Line2D([], [], label="batch size that hides the network", **look)])
        return drawn

    return RooflineKind("Network roofline", lambda points: "FLOPs per byte communicated (FLOP/byte)", draw)


Group = list[tuple[Crossing, RoofPoint]]


def _groups_left_of(
    ridge: float, labels: Labels, panel: RooflinePanel, crossings: Sequence[Crossing]
) -> list[Group]:
    """Ranks that cross the ridge with larger batches; those within a marker or two of each other together."""
    groups: list[Group] = []
    for crossing in crossings:
        point = next(p for p in panel.points if p.label == crossing.label)
        if crossing.crossing.value is None or markers.place(point)[0] >= ridge:
            continue
        for group in groups:
            first = group[0][1]
            near = labels.distance(markers.place(first), markers.place(point)) < 2 * style.MARKER
            if first.role == point.role and near:
                group.append((crossing, point))
                break
        else:
            groups.append([(crossing, point)])
    return groups


def _draw_crossing(axis: Axes, labels: Labels, group: Group, ridge: float) -> None:
    """An arrow from the middle point of the group to the ridge, with the batch size at which it arrives."""
    point = sorted((p for _, p in group), key=lambda p: markers.place(p)[1])[len(group) // 2]
    x, y = markers.place(point)
    looks = {"color": style.colour(point.role), "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
    arrow = {"arrowstyle": "->,head_width=0.15,head_length=0.3", "shrinkA": 5.0, "shrinkB": 0.0, **looks}
    axis.annotate("", (ridge, y), (x, y), arrowprops=arrow, zorder=3).set_in_layout(False)
    # The shaft again, as a line that labels keep off.
    axis.add_line(Line2D((x, ridge), (y, y), alpha=0.0))
    # Examples are whole numbers; the factor undoes rounding errors of floats.
    batches = sorted(math.ceil((crossing.crossing.value or 0.0) * (1 - 1e-9)) for crossing, _ in group)
    ends = " to ".join(dict.fromkeys(f"{batch:,}" for batch in (batches[0], batches[-1])))
    labels.at_point(ridge, y, f"at batch {ends}", style.colour(point.role), size=0.0)
