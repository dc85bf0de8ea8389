"""Arrays of shapes with edges that are horizontal, vertical or at 45 degrees, and of straight lines; which of
them overlap.

A shape is stored as the interval it covers along each of four directions (across, up, and both diagonals). By
the separating axis theorem two such shapes are disjoint exactly if their intervals along one of the four are;
a line and a shape also if the normal of the line separates them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ACROSS, _UP = np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0, -1.0])
_HALF = math.sqrt(0.5)


class Texts(NamedTuple):
    """n possible places of one text: centres, width and height, and whether it rises by 45 degrees."""

    x: Array
    y: Array
    width: float
    height: float
    rising: bool

    def covered(self) -> Array:
        """(n, 4, 2): its interval along each of the four directions."""
        wide, high = self.width / 2, self.height / 2
        reaches = np.array([wide, high, wide + high, wide + high])
        if self.rising:
            level = (wide + high) * _HALF
            reaches = np.array([level, level, wide / _HALF, high / _HALF])
        return _around(self.x, self.y, reaches)

    def reach(self, across: Array, up: Array) -> Array:
        """How far it extends from its centre along other directions."""
        wide, high = self.width / 2, self.height / 2
        if self.rising:
            return np.abs(across + up) * _HALF * wide + np.abs(up - across) * _HALF * high
        return np.abs(across) * wide + np.abs(up) * high


def discs(places: Array, radius: float) -> Array:
    """(n, 4, 2) of round markers at places (n, 2), as the octagons around them."""
    diagonal = radius / _HALF
    return _around(places[:, 0], places[:, 1], np.array([radius, radius, diagonal, diagonal]))


def box(left: float, bottom: float, right: float, top: float) -> Array:
    """(1, 4, 2) of a horizontal box."""
    width, height = right - left, top - bottom
    middle = np.array([left + width / 2]), np.array([bottom + height / 2])
    return Texts(*middle, width, height, False).covered()


def segments(begin: Array, end: Array) -> Array:
    """(n, 4, 2) of straight lines from (n, 2) to (n, 2)."""
    ends = [_along(places[:, 0], places[:, 1]) for places in (begin, end)]
    return np.stack([np.minimum(*ends), np.maximum(*ends)], axis=-1)


def joined(shapes: Sequence[Array]) -> Array:
    return np.concatenate([np.empty((0, 4, 2)), *shapes])


def touching(some: Array, others: Array) -> NDArray[np.bool_]:
    """(n, m): which of n shapes overlap which of m others. Lines at other angles may be reported as
    overlapping although they are not."""
    begins = some[:, None, :, 0] < others[None, :, :, 1]
    ends = others[None, :, :, 0] < some[:, None, :, 1]
    return np.asarray((begins & ends).all(axis=2))


def crossed(texts: Texts, lines: Array) -> NDArray[np.bool_]:
    """(n, m): which of n places of a text are crossed by which of m lines, (m, 2, 2) by their ends."""
    begin, end = lines[:, 0], lines[:, 1]
    across, up = -(end - begin)[:, 1], (end - begin)[:, 0]
    from_line = (texts.x[:, None] - begin[:, 0]) * across + (texts.y[:, None] - begin[:, 1]) * up
    near = np.abs(from_line) < texts.reach(across, up)
    return near & touching(texts.covered(), segments(begin, end))


def _along(x: Array, y: Array) -> Array:
    return np.asarray(x[:, None] * _ACROSS + y[:, None] * _UP)


def _around(x: Array, y: Array, reaches: Array) -> Array:
    middles = _along(x, y)
    return np.stack([middles - reaches, middles + reaches], axis=-1)
