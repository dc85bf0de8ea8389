"""Possible places of a text: around a point, or along a line, with what each costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from .shapes import Array

LINE_STEP = 5.0  # between candidates along a line
BELOW_LINE = 5.0  # what a place below a line costs more than one above it

_ANGLES = (0, -45, 45, 180, -135, 135, -90, 90, -20, 20, 160, 200, -65, 65, -115, 115)  # degrees, best first
_DISTANCES = (2.0, 4.5, 7.0, 10.0, 13.0, 20.0, 30.0, 42.0, 56.0, 72.0, 95.0, 120.0, 150.0, 190.0)  # points


class Candidates(NamedTuple):
    """Possible centres of a text, pixels, and the distance of each from the ideal place, points."""

    x: Array
    y: Array
    distance: Array


# From axes, and width and height of the text and pixels per point.
FindCandidates = Callable[[Axes, float, float, float], Candidates]


def around_point(x: float, y: float, radius: float) -> FindCandidates:
    """radius: of the marker, points."""

    def candidates(axis: Axes, width: float, height: float, scale: float) -> Candidates:
        at_x, at_y = axis.transData.transform((x, y))
        distances, degrees = np.meshgrid(_DISTANCES, _ANGLES, indexing="ij")
        across, up = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        reach = (radius + distances) * scale
        # The edge of the text, not its centre, keeps the distance.
        side = np.where(np.abs(across) < 0.3, 0.0, np.sign(across))
        level = np.where(np.abs(up) < 0.3, 0.0, np.sign(up))
        centre_x = at_x + across * reach + side * width / 2
        centre_y = at_y + up * reach + level * height / 2
        cost = distances + 0.15 * np.arange(len(_ANGLES))
        return Candidates(centre_x.ravel(), centre_y.ravel(), cost.ravel())

    return candidates


def along_level_line(line: Line2D) -> FindCandidates:
    """Above or below the line, from its right end to the left."""

    def candidates(axis: Axes, width: float, height: float, scale: float) -> Candidates:
        begin, y, end, _ = _visible_ends(line, axis)
        room = max(0.0, end - begin - width)
        along, side, cost = _both_sides(np.arange(0.0, room + 1.0, LINE_STEP * scale))
        distance = 0.4 * along / scale + cost
        centre_y = y + side * (height / 2 + 0.3 * scale)
        return Candidates((end - width / 2 - along).ravel(), centre_y.ravel(), distance.ravel())

    return candidates


def along_rising_line(line: Line2D) -> FindCandidates:
    """Above or below the line, from where it enters the axes."""

    def candidates(axis: Axes, width: float, height: float, scale: float) -> Candidates:
        begin, y, end, _ = _visible_ends(line, axis)
        half = np.sqrt(0.5)
        first = (width / 2 + 4 * scale) * half
        last = end - begin - width / 2 * half
        along, side, cost = _both_sides(np.arange(first, max(first, last) + 1.0, LINE_STEP * scale))
        aside = side * (height / 2 + 0.8 * scale) * half
        distance = 0.5 * (along - first) / scale + cost
        return Candidates((begin + along - aside).ravel(), (y + along + aside).ravel(), distance.ravel())

    return candidates


def _both_sides(along: Array) -> tuple[Array, Array, Array]:
    """Each place along a line above it (side 1) and below it (side -1), and what the side costs."""
    places, side = np.meshgrid(along, np.array([1.0, -1.0]), indexing="ij")
    return places, side, np.where(side > 0, 0.0, BELOW_LINE)


def _visible_ends(line: Line2D, axis: Axes) -> tuple[float, float, float, float]:
    """Of a line of two points, from left to right, pixels."""
    frame = axis.get_window_extent()
    (x0, y0), (x1, y1) = axis.transData.transform(line.get_xydata())
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
    begin, end = max(x0, frame.x0), min(x1, frame.x1)
    if slope:
        begin = max(begin, x0 + (frame.y0 - y0) / slope)
        end = min(end, x0 + (frame.y1 - y0) / slope)
    return begin, y0 + (begin - x0) * slope, end, y0 + (end - x0) * slope
