"""Bars that go on beyond the top of the picture: a break through each, and beside it how high it is."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon

from ..tables import units
from . import style
from .label_placement import Labels

AT, GAP, RISE = 0.86, 0.05, 0.03  # where a break begins, how wide it is and how it rises; heights of the axes


def mark(axis: Axes, places: range, heights: Sequence[float], top: float, unit: float) -> bool:
    """Break bars above `top`; heights and top in s, NaN where there is no bar; unit: of the axis, s. Whether
    there are any."""
    cut = [(place, high) for place, high in zip(places, heights, strict=True) if high > top]
    labels = Labels(axis) if cut else None
    for place, high in sorted(cut, key=lambda found: -found[1]):
        _break(axis, place, place + places.step, top / unit)
        if labels:
            middle = place + places.step / 2
            told = units.number(high, "s")
            labels.at_point(middle, top / unit * (AT + GAP), told, style.DIM, size=8.0, max_distance=14.0)
    return bool(cut)


def _break(axis: Axes, left: float, right: float, top: float) -> None:
    low, rise, gap = AT * top, RISE * top, GAP * top
    corners = [(left, low), (right, low + rise), (right, low + rise + gap), (left, low + gap)]
    axis.add_patch(Polygon(corners, closed=True, facecolor="white", edgecolor="none", zorder=3.2))
    for up in (low, low + gap):
        edge = Line2D((left, right), (up, up + rise), color=style.DIM, linewidth=0.7, zorder=3.3)
        axis.add_line(edge)
