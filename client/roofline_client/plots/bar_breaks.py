"""Bars that continue beyond the top of the axes: a break through each, and next to it its height."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon

from ..tables import units
from . import style
from .label_placement import Labels

AT, GAP, RISE = 0.86, 0.05, 0.03  # where a break begins, its width and its rise; heights of the axes


def draw(axis: Axes, places: range, heights: Sequence[float], top: float, unit: float) -> None:
    """Break the bars above `top`. heights and top in s, NaN where there is no bar; unit: of the y axis, s."""
    long = [(place, height) for place, height in zip(places, heights, strict=True) if height > top]
    if not long:
        return
    labels = Labels(axis)
    end = top / unit
    low, gap, rise = AT * end, GAP * end, RISE * end
    # The longest bars choose places for their labels first.
    for left, height in sorted(long, key=lambda found: -found[1]):
        right = left + places.step
        corners = [(left, low), (right, low + rise), (right, low + rise + gap), (left, low + gap)]
        axis.add_patch(Polygon(corners, closed=True, facecolor="white", edgecolor="none", zorder=3.2))
        for up in (low, low + gap):
            edge = Line2D((left, right), (up, up + rise), color=style.DIM, linewidth=0.7, zorder=3.3)
            axis.add_line(edge)
        middle = left + places.step / 2
        text = units.number(height, "s")
        labels.at_point(middle, low + gap, text, style.DIM, size=8.0, max_distance=14.0)
