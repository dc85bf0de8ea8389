"""Step times and lateness of many ranks over many steps in few numbers: by stretches of steps.

Of each stretch and group of ranks the extremes are kept, so that no spike is lost. Lateness is relative to
the median rank of the same step: what all ranks do slowly makes none of them late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..records import Floats, Ints

BLOCK_CELLS = 1 << 22  # steps x ranks that are looked at together: 32 MB a table


class StepTimes(NamedTuple):
    """A row each step of each rank, in order of the step's number; of a rank each step once."""

    step: Ints
    rank: Ints  # from 0, in the order of the ranks
    duration: Floats  # s
    own: Floats  # of it what the rank did not wait for others, s


class Stretches(NamedTuple):
    """Neighbouring steps. first, last: their numbers; begin: where each begins among all numbers."""

    first: Ints
    last: Ints
    begin: Ints
    numbers: Ints  # of all steps


class Extremes(NamedTuple):
    """Extremes of groups of ranks in stretches, (stretches, groups); s, NaN where no rank took a step."""

    shortest: Floats
    middle: Floats
    longest: Floats


def stretches(step: Ints, most: int) -> Stretches:
    """Cut into at most so many stretches of equally many steps. step: numbers, upwards, may repeat."""
    numbers = np.unique(step)
    if not len(numbers):
        return Stretches(numbers, numbers, numbers, numbers)
    edges = np.linspace(0, len(numbers), min(most, len(numbers)) + 1).astype(np.int64)
    return Stretches(numbers[edges[:-1]], numbers[edges[1:] - 1], edges[:-1], numbers)


def look(
    times: StepTimes, cut: Stretches, ranks: int, shown: slice, lines: Sequence[int], groups: Sequence[int]
) -> tuple[Extremes, Floats, Floats]:
    """Of the shown ranks, against the median of all: step times of each line; lateness furthest from 0 of
    each group, (stretches, groups); and the mean lateness of each rank. lines, groups: the first shown rank
    of each, upwards from 0."""
    count = shown.stop - shown.start
    found, late, sums, counts = [], [], np.zeros(count), np.zeros(count)
    for duration, own, begin in _blocks(times, cut, ranks):
        found.append(_extremes(duration[:, shown], begin, lines))
        behind = own[:, shown] - _median(own)[:, None]
        late.append(_furthest(behind, begin, groups))
        sums += np.nansum(behind, axis=0)
        counts += np.sum(~np.isnan(behind), axis=0)
    if not found:
        none: Floats = np.zeros((0, len(lines)))
        return Extremes(none, none, none), np.zeros((0, len(groups))), np.full(count, np.nan)
    mean = np.divide(sums, counts, out=np.full(count, np.nan), where=counts > 0)
    return (
        Extremes(*(np.concatenate(parts) for parts in zip(*found, strict=True))),
        np.concatenate(late),
        mean,
    )


def _blocks(times: StepTimes, cut: Stretches, ranks: int) -> Iterator[tuple[Floats, Floats, Ints]]:
    """Durations and own times of some stretches as (steps, ranks), and where in them each stretch begins."""
    at = np.searchsorted(cut.numbers, times.step)
    ends = np.append(cut.begin[1:], len(cut.numbers))
    begin = 0
    while begin < len(cut.first):
        room = cut.begin[begin] + max(1, BLOCK_CELLS // max(1, ranks))
        end = max(begin + 1, int(np.searchsorted(ends, room, side="right")))
        first, last = int(cut.begin[begin]), int(ends[end - 1])
        rows = slice(*np.searchsorted(at, [first, last]).tolist())
        tables = np.full((2, last - first, ranks), np.nan)
        tables[0, at[rows] - first, times.rank[rows]] = times.duration[rows]
        tables[1, at[rows] - first, times.rank[rows]] = times.own[rows]
        yield tables[0], tables[1], cut.begin[begin:end] - first
        begin = end


def _extremes(duration: Floats, begin: Ints, lines: Sequence[int]) -> Extremes:
    ends = [*lines[1:], duration.shape[1]]
    groups = [duration[:, first:last] for first, last in zip(lines, ends, strict=True)]
    middle = np.stack([_median(group) for group in groups], axis=1)
    known = np.add.reduceat(~np.isnan(middle), begin, axis=0, dtype=np.float64)
    total = np.add.reduceat(np.nan_to_num(middle), begin, axis=0)
    return Extremes(
        np.fmin.reduceat(np.fmin.reduceat(duration, lines, axis=1), begin, axis=0),
        np.divide(total, known, out=np.full(total.shape, np.nan), where=known > 0),
        np.fmax.reduceat(np.fmax.reduceat(duration, lines, axis=1), begin, axis=0),
    )


def _furthest(late: Floats, begin: Ints, groups: Sequence[int]) -> Floats:
    highest = np.fmax.reduceat(np.fmax.reduceat(late, begin, axis=0), groups, axis=1)
    lowest = np.fmin.reduceat(np.fmin.reduceat(late, begin, axis=0), groups, axis=1)
    found: Floats = np.where(np.abs(lowest) > np.abs(highest), lowest, highest)
    return found


def _median(table: Floats) -> Floats:
    """Of each row, of what is known; NaN where nothing is."""
    if table.shape[1] == 1:
        return table[:, 0]
    ordered, known = np.sort(table, axis=1), np.sum(~np.isnan(table), axis=1)  # NaN come last
    row = np.arange(len(table))
    low, high = ordered[row, np.maximum(known - 1, 0) // 2], ordered[row, known // 2 % table.shape[1]]
    found: Floats = np.where(known > 0, (low + high) / 2, np.nan)
    return found
