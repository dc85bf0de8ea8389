"""Two runs side by side: how much a mean over steps differs, and whether that is more than steps vary.

Steps are resampled in blocks, by the closed form of intervals.py; for a ratio by its logarithm (delta method,
Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 21). No interval from two runs can
include what varies from run to run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import exp, hypot, log
from typing import NamedTuple

import numpy as np

from ...records import Floats, Ints
from ..barrier import Grid
from ..intervals import SHOWN, mean_and_error, student
from .account import Account
from .ledger import place

OTHER = "other"
HIDES = 0.1  # of a part: less time than this that nothing explains hides hardly any of it


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


class StepsOfRanks(NamedTuple):
    """The steps of a job. grid: of ranks that do them together; None: each does its own."""

    accounts: Sequence[Account]
    end_ns: Sequence[Ints]  # of the steps of each, server time
    grid: Grid | None

    def over_ranks(self, columns: Sequence[Floats]) -> Floats:
        """Values in order of time, columns: by rank. Of ranks that do their steps together the mean of each
        step over those that took part in it. Else all values: their mean is the job's, to which a slow rank
        adds few. It is steps that vary, not ranks: each varies about the mean of all."""
        if self.grid is not None:
            if self.grid.is_whole:
                return np.asarray(np.mean(columns, axis=0))
            return np.asarray(np.nanmean(self.grid.place(columns), axis=1))
        known = [column for column in columns if len(column)]
        if not known:
            return np.zeros(0)
        whole = float(np.concatenate(known).mean())
        values: Floats = np.concatenate([column - column.mean() + whole for column in known])
        return values[np.argsort(np.concatenate(self.end_ns), kind="stable")]


def step_times(ranks: StepsOfRanks) -> Floats:
    """As long as steps are, in order of time."""
    return ranks.over_ranks([one.duration for one in ranks.accounts])


def part_times(ranks: StepsOfRanks) -> dict[str, Floats]:
    """The same of each part; parts that any rank has."""
    accounts = ranks.accounts
    names = sorted({name for one in accounts for name in one.parts}, key=place)
    return {
        name: ranks.over_ranks([one.parts.get(name, np.zeros_like(one.duration)) for one in accounts])
        for name in names
    }


def comparable_parts(
    first: Mapping[str, Floats], second: Mapping[str, Floats]
) -> tuple[dict[str, Floats], dict[str, Floats], list[str]]:
    """(parts of the first job, of the second, names of those that are sums): what only one of the two has
    apart is added up in both, under the names of all that is in it.

    A part that only one job has is 0 in the other, unless the other has it under a name of several, or so
    much time that nothing explains that the part may be hidden in it.
    """
    groups = _overlapping(sorted({*first, *second}, key=place))
    if hidden := _hidden(first, second) | _hidden(second, first):
        unexplained = [group for group in groups if group & {*hidden, OTHER}]
        groups = [group for group in groups if group not in unexplained] + [set().union(*unexplained)]
    sums = [group for group in groups if len(group) > 1 and group & {*first} != group & {*second}]
    added: set[str] = set().union(*sums)
    found = []
    for side in (first, second):
        parts = {name: column for name, column in side.items() if name not in added}
        for group in sums:
            columns = [side[name] for name in sorted(group) if name in side]
            if columns:
                parts[_name_of(group)] = np.sum(columns, axis=0)
        found.append(parts)
    return found[0], found[1], [_name_of(group) for group in sums]


def _hidden(parts: Mapping[str, Floats], within: Mapping[str, Floats]) -> set[str]:
    """Those of these parts that the other job does not have under any name, but perhaps as time that nothing
    explains."""
    unexplained = float(np.mean(within[OTHER])) if OTHER in within else 0.0
    single = {part for name in within for part in name.split("|")}
    return {
        name
        for name, column in parts.items()
        if not single & {*name.split("|")} and unexplained > HIDES * float(np.mean(column))
    }


def _overlapping(names: Collection[str]) -> list[set[str]]:
    """Names in groups, so that no single part is in two of them."""
    groups: list[set[str]] = []
    for name in names:
        parts = set(name.split("|"))
        touched = [group for group in groups if any(parts & set(other.split("|")) for other in group)]
        groups = [group for group in groups if group not in touched] + [{name}.union(*touched)]
    return groups


def _name_of(group: Collection[str]) -> str:
    single = {part for name in group for part in name.split("|")}
    return "|".join(sorted(single, key=place))
