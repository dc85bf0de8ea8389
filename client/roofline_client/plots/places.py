"""Where a text may stand: round a point, or along a line; from the best place to the worst."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from .shapes import Array

_AROUND = (0, -45, 45, 180, -135, 135, -90, 90, -20, 20, 160, 200, -65, 65, -115, 115)  # degrees
_DISTANCES = (2.0, 4.5, 7.0, 10.0, 13.0, 20.0, 30.0, 42.0, 56.0, 72.0, 95.0, 120.0, 150.0, 190.0)  # points
STEP = 5.0  # points between places along a line


class Spots(NamedTuple):
    """Middles of a text, pixels; and how far each is from where the text would best be, points."""

    x: Array
    y: Array
    far: Array


# Of axes, width and height of the text, and a point, in pixels.
Places = Callable[[Axes, float, float, float], Spots]


def round_a_point(x: float, y: float, radius: float) -> Places:
    """radius: of the marker, points."""

    def places(axis: Axes, width: float, height: float, scale: float) -> Spots:
        at_x, at_y = axis.transData.transform((x, y))
        distance, degrees = np.meshgrid(_DISTANCES, _AROUND, indexing="ij")
        across, up = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        reach = (radius + distance) * scale
        far = distance + 0.15 * np.arange(len(_AROUND))
        # The text's edge, not its middle, keeps the distance.
        middle_x = at_x + across * reach + _side(across) * width / 2
        middle_y = at_y + up * reach + _side(up) * height / 2
        return Spots(middle_x.ravel(), middle_y.ravel(), far.ravel())

    return places


def _side(cosines: Array) -> Array:
    return np.where(np.abs(cosines) < 0.3, 0.0, np.sign(cosines))


def _visible(line: Line2D, axis: Axes) -> tuple[float, float, float, float]:
    """The ends of what is seen of a line of two points, from left to right; pixels."""
    frame = axis.get_window_extent()
    (x0, y0), (x1, y1) = axis.transData.transform(line.get_xydata())
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
    begin, end = max(x0, frame.x0), min(x1, frame.x1)
    if slope:
        begin = max(begin, x0 + (frame.y0 - y0) / slope)
        end = min(end, x0 + (frame.y1 - y0) / slope)
    return begin, y0 + (begin - x0) * slope, end, y0 + (end - x0) * slope


# Above a line (1) or under it (-1), and what the worse of them costs, points.
_SIDES, _UNDER = np.array([1.0, -1.0]), np.array([0.0, 5.0])


def along_level(line: Line2D) -> Places:
    """Above or under the line, from its right end on leftwards."""

    def places(axis: Axes, width: float, height: float, scale: float) -> Spots:
        begin, y, end, _ = _visible(line, axis)
        room = max(0.0, end - begin - width)
        on = np.arange(0.0, room + 1.0, STEP * scale)
        along, side = np.meshgrid(on, _SIDES, indexing="ij")
        far = 0.4 * along / scale + _UNDER
        return Spots(
            (end - width / 2 - along).ravel(), (y + side * (height / 2 + 0.3 * scale)).ravel(), far.ravel()
        )

    return places


def along_rising(line: Line2D) -> Places:
    """Above or under the line, from where it comes into the picture on."""

    def places(axis: Axes, width: float, height: float, scale: float) -> Spots:
        begin, y, end, _ = _visible(line, axis)
        half = np.sqrt(0.5)
        first = (width / 2 + 4 * scale) * half
        last = end - begin - width / 2 * half
        on = np.arange(first, max(first, last) + 1.0, STEP * scale)
        along, side = np.meshgrid(on, _SIDES, indexing="ij")
        aside = side * (height / 2 + 0.8 * scale) * half
        far = 0.5 * (along - first) / scale + _UNDER
        return Spots((begin + along - aside).ravel(), (y + along + aside).ravel(), far.ravel())

    return places
