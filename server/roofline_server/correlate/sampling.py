"""Kernels of steps that were not recorded, from steps that were.

If the kernels of only some steps of a rank are recorded, a step that was not recorded gets those of similar
steps: steps with the same number `like` did the same work. If that number is not known, they are estimated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..records import ABSENT, Bools, Floats, Ints

# How a step's kernels are known.
RECORDED, LIKE, ESTIMATED = 1, 2, 3
AGREE = 0.01  # of the largest: steps that differ by more did not do the same work


class SampledSteps:
    """The steps of one rank, of which at least one was recorded.

    Each step that was not takes its numbers from a pool of recorded ones: those with its `like`, else all.
    """

    def __init__(self, recorded: Bools, like: Ints, examples: Ints, work: Sequence[Ints]) -> None:
        """Columns of all steps, in any order. like: 0 not known; of a rank that has none, all steps count as
        alike if the recorded ones agree. examples: ABSENT not known. work: what steps that are alike share
        (FLOPs, bytes)."""
        self._recorded = recorded
        self._numbers, pool = np.unique(like[recorded], return_inverse=True)
        order = np.argsort(pool, kind="stable")
        self._at = np.flatnonzero(recorded)[order]  # recorded steps, pool by pool
        self._pool = pool.reshape(-1)[order]
        self._first = np.flatnonzero(np.append(True, np.diff(self._pool) != 0))
        # The last pool is of all recorded steps.
        self._count = np.append(np.bincount(self._pool), len(self._at))
        known = np.where(examples > 0, examples, 0).astype(np.float64)
        self._examples = known
        self._sized = self._sums(known[self._at])

        place = np.minimum(np.searchsorted(self._numbers, like), len(self._numbers) - 1)
        alone = len(self._numbers) == 1 and not like.any()
        own = (self._numbers[place] == like) & ((like > 0) | alone)
        self._from = np.where(own, place, len(self._numbers))
        alike = own & self._agree(work)[place]
        self.origin: Ints = np.where(recorded, RECORDED, np.where(alike, LIKE, ESTIMATED)).astype(np.int64)
        # An estimate grows with the examples, where both are known.
        estimated = np.flatnonzero(self.origin == ESTIMATED)
        sized = (known[estimated] > 0) & (self._sized[self._from[estimated]] > 0)
        self._scaled, self._plain = estimated[sized], estimated[~sized]

    def filled(self, column: Ints, mean: bool = False) -> Ints:
        """A column with the numbers of the steps that were not recorded. mean: of steps that are alike take
        the mean, because it is a time; else the median. What is ABSENT counts as 0."""
        recorded = column[self._at].astype(np.int64)
        recorded[recorded == ABSENT] = 0
        found: Ints = np.zeros(len(column), np.int64)
        if not recorded.any():
            return found
        numbers = recorded.astype(np.float64)
        means = self._sums(numbers) / self._count
        found = np.rint(means if mean else self._medians(numbers)).astype(np.int64)[self._from]
        found[self._plain] = np.rint(means[self._from[self._plain]])
        if len(self._scaled):
            sized = self._sums(np.where(self._examples[self._at] > 0, numbers, 0.0))
            rate = np.divide(sized, self._sized, out=np.zeros_like(sized), where=self._sized > 0)
            found[self._scaled] = np.rint(rate[self._from[self._scaled]] * self._examples[self._scaled])
        found[self._at] = recorded
        return found

    def weights(self, wanted: Bools) -> Floats:
        """Per step, for how many of the wanted steps it stands: what the recorded steps did, each times its
        weight, is what all wanted ones did. 0 for a step that was not recorded."""
        pools = len(self._count)
        plain = wanted & ~self._recorded
        plain[self._scaled] = False
        scaled = self._scaled[wanted[self._scaled]]
        each = np.bincount(self._from[plain], minlength=pools) / self._count
        examples = np.bincount(self._from[scaled], self._examples[scaled], minlength=pools)
        of_sized = np.divide(examples, self._sized, out=np.zeros(pools), where=self._sized > 0)
        found = np.where(self._recorded & wanted, 1.0, 0.0)
        for pool in (self._pool, np.full(len(self._at), pools - 1)):
            found[self._at] += each[pool] + np.where(self._examples[self._at] > 0, of_sized[pool], 0.0)
        return found

    def _sums(self, numbers: Floats) -> Floats:
        """Sum of each pool. numbers: of the recorded steps, in the order of `_at`."""
        return np.append(np.add.reduceat(numbers, self._first), numbers.sum())

    def _medians(self, numbers: Floats) -> Floats:
        """Median of each pool. numbers: as of `_sums`."""
        ordered = numbers[np.lexsort((numbers, self._pool))]
        count = self._count[:-1]
        low, high = self._first + (count - 1) // 2, self._first + count // 2
        return np.append((ordered[low] + ordered[high]) / 2, np.median(numbers))

    def _agree(self, work: Sequence[Ints]) -> Bools:
        """Whether the steps of each pool but the last did the same work."""
        found = np.ones(len(self._numbers), np.bool_)
        for column in work:
            some = column[self._at]
            some = np.where(some == ABSENT, 0, some)
            most = np.maximum.reduceat(some, self._first)
            found &= most - np.minimum.reduceat(some, self._first) <= AGREE * np.abs(most)
        return found
