"""Slopes with intervals. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

RESAMPLES = 1000
COVERAGE = 0.95
BLOCKS = 20  # neighbours are alike, so whole stretches of them are drawn


class Slope(NamedTuple):
    """y per x, with an interval of the share COVERAGE."""

    slope: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.slope:+.3g} ({self.low:+.3g} to {self.high:+.3g})"


def least_squares(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of the line of least squares; 0 where all x are the same."""
    n = len(x)
    mean_x, mean_y = sum(x) / n, sum(y) / n
    spread = sum((one - mean_x) ** 2 for one in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread if spread else 0.0


def slope(x: Sequence[float], y: Sequence[float], seed: int = 0) -> Slope:
    """By least squares; the interval by a bootstrap of blocks of neighbours. At least two points."""
    chance, size = random.Random(seed), max(1, len(x) // BLOCKS)
    points = list(zip(x, y, strict=True))
    blocks = [points[at : at + size] for at in range(0, len(points), size)]
    found = []
    for _ in range(RESAMPLES):
        drawn = [point for block in chance.choices(blocks, k=len(blocks)) for point in block]
        found.append(least_squares([point[0] for point in drawn], [point[1] for point in drawn]))
    found.sort()
    cut = round((1 - COVERAGE) / 2 * RESAMPLES)
    return Slope(least_squares(x, y), found[cut], found[-1 - cut])


def without(y: Sequence[float], z: Sequence[float]) -> list[float]:
    """y less what goes with z, by least squares."""
    per_z, mean = least_squares(z, y), sum(z) / len(z)
    return [one - per_z * (other - mean) for one, other in zip(y, z, strict=True)]


def slope_beside(x: Sequence[float], y: Sequence[float], z: Sequence[float]) -> Slope:
    """`slope` of y over x with z held (Frisch, Waugh and Lovell): what z does to y is no trend."""
    return slope(without(x, z), without(y, z))


def quantile(values: Sequence[float], share: float) -> float:
    """Of at least one value."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
