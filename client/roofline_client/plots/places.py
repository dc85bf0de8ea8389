"""Where a text may stand: round a point, or along a line; from the best place to the worst."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

_AROUND = (0, -45, 45, 180, -135, 135, -90, 90, -20, 20, 160, 200, -65, 65, -115, 115)  # degrees


class Place(NamedTuple):
    """The middle of a text, pixels; and how far it is from where it would best be, points."""

    x: float
    y: float
    far: float


# Of axes, width and height of the text, and a point, in pixels.
Places = Callable[[Axes, float, float, float], Iterable[Place]]


def round_a_point(x: float, y: float, radius: float) -> Places:
    def places(axis: Axes, width: float, height: float, scale: float) -> Iterator[Place]:
        at_x, at_y = axis.transData.transform((x, y))
        for distance in (2.0, 7.0, 13.0, 20.0, 30.0, 42.0, 56.0, 72.0, 95.0, 120.0):
            reach = (radius + distance) * scale
            for order, degrees in enumerate(_AROUND):
                across, up = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
                # The text's edge, not its middle, keeps the distance.
                middle_x = at_x + across * reach + _side(across) * width / 2
                middle_y = at_y + up * reach + _side(up) * height / 2
                yield Place(middle_x, middle_y, distance + 0.15 * order)

    return places


def _side(cosine: float) -> float:
    return 0.0 if abs(cosine) < 0.3 else math.copysign(1.0, cosine)


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


BOTH, BELOW = ((1, 0.0), (-1, 5.0)), ((-1, 0.0),)  # sides of a line, and what each costs, points
Sides = tuple[tuple[int, float], ...]


def along_level(line: Line2D, sides: Sides = BOTH) -> Places:
    """Above or under the line, from its right end on leftwards."""

    def places(axis: Axes, width: float, height: float, scale: float) -> Iterator[Place]:
        begin, y, end, _ = _visible(line, axis)
        for step in range(40):
            x = end - width / 2 - step * 10 * scale
            if x - width / 2 < begin and step:
                return
            for side, more in sides:
                yield Place(x, y + side * (height / 2 + 0.3 * scale), step * 4 + more)

    return places


def along_rising(line: Line2D, sides: Sides = BOTH) -> Places:
    """Above or under the line, from where it comes into the picture on."""

    def places(axis: Axes, width: float, height: float, scale: float) -> Iterator[Place]:
        begin, y, end, _ = _visible(line, axis)
        aside = (height / 2 + 0.8 * scale) * math.sqrt(0.5)
        for step in range(40):
            on = (width / 2 + 4 * scale) * math.sqrt(0.5) + step * 8 * scale
            if begin + on + width / 2 * math.sqrt(0.5) > end and step:
                return
            for side, more in sides:
                yield Place(begin + on - side * aside, y + on + side * aside, step * 4 + more)

    return places
