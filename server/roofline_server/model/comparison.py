"""Two runs side by side: how much a mean over steps differs, and whether that is more than steps vary.

Steps are resampled in blocks, by the closed form of intervals.py; of a ratio by its logarithm (delta method,
Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 21). What varies from run to run is in
no interval that two runs can give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, hypot, log
from typing import NamedTuple

import numpy as np

from ..records import Floats
from .account import Account
from .intervals import SHOWN, mean_and_error, student
from .ledger import place


class Difference(NamedTuple):
    """How a mean differs. low, high: where the difference lies 95 times in 100; None: too few steps."""

    first: float
    second: float
    change: float
    low: float | None
    high: float | None
    within_noise: bool


def difference(first: Floats, second: Floats) -> Difference:
    """Second less first, of values in order of time."""
    (mean, error, freedom), (mean2, error2, freedom2) = mean_and_error(first), mean_and_error(second)
    change = mean2 - mean
    if min(freedom, freedom2) < 1 or not np.isfinite(error + error2):
        return Difference(mean, mean2, change, None, None, True)
    half = _quantile(freedom, freedom2) * hypot(error, error2)
    return Difference(mean, mean2, change, change - half, change + half, change - half <= 0 <= change + half)


def ratio(first: Floats, second: Floats, inverse: bool = False) -> Difference:
    """Second over first, of positive values in order of time; inverse: first over second, as of rates."""
    (mean, error, freedom), (mean2, error2, freedom2) = mean_and_error(first), mean_and_error(second)
    if not (mean > 0 and mean2 > 0):
        return Difference(mean, mean2, float("nan"), None, None, True)
    change = mean / mean2 if inverse else mean2 / mean
    if min(freedom, freedom2) < 1 or not np.isfinite(error + error2):
        return Difference(mean, mean2, change, None, None, True)
    half = _quantile(freedom, freedom2) * hypot(error / mean, error2 / mean2)
    low, high = exp(log(change) - half), exp(log(change) + half)
    return Difference(mean, mean2, change, low, high, low <= 1 <= high)


def _quantile(freedom: int, other: int) -> float:
    return student(1 - (1 - SHOWN) / 2, min(freedom, other))


def step_times(accounts: Sequence[Account]) -> Floats:
    """Mean over the ranks of each step, in order."""
    return _over_ranks([one.duration for one in accounts])


def part_times(accounts: Sequence[Account]) -> dict[str, Floats]:
    """The same of each part that any rank has."""
    names = sorted({name for one in accounts for name in one.parts}, key=place)
    return {
        name: _over_ranks([one.parts.get(name, np.zeros_like(one.duration)) for one in accounts])
        for name in names
    }


def _over_ranks(columns: Sequence[Floats]) -> Floats:
    """Ranks that step independently have not as many steps each: those that all have are compared."""
    if not columns:
        return np.zeros(0)
    steps = min(len(column) for column in columns)
    mean: Floats = np.mean([column[:steps] for column in columns], axis=0)
    return mean


def comparable_parts(
    first: Mapping[str, Floats], second: Mapping[str, Floats]
) -> tuple[list[str], list[str]]:
    """(parts to compare, parts that one of the two jobs has merged with others and the other has not).

    A part that only one job has is 0 in the other, unless the other has it under a name of several.
    """
    names = sorted({*first, *second}, key=place)
    merged = []
    for here, there in ((first, second), (second, first)):
        for name in here:
            for other in there:
                if name != other and set(name.split("|")) & set(other.split("|")) and name not in merged:
                    merged.append(name)
    return [name for name in names if name not in merged], merged
