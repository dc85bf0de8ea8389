"""What fixing one thing would give: the steps of a synchronous job, played again without it.

One thing is fixed by putting another rank's times in its place. These are taken from other steps, shifted at
random: within one step ranks disturb each other, and the maximum over ranks that are made alike in it would
be smaller than that of ranks that really are alike.

The idea is that of Lin et al., Understanding Stragglers in Large Model Training Using What-if Analysis (OSDI
2025), who replay traces of operations with the times of stragglers idealised, and of Liang et al., Lumos:
Efficient Performance Modeling and Estimation for Large-scale LLM Training (MLSys 2025); here steps are made
of the parts of accounts instead of operations, which needs no trace.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...records import Floats
from ..intervals import interval
from .synchronous_job import LACKING, Job

SHIFTS = 24


class Replay:
    """A job, to be played with things fixed. Seeded: the same job gives the same answer."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._arrival = job.arrival
        self._random = np.random.default_rng(0)

    def like_others(self, ranks: Sequence[int], parts: Sequence[str]) -> Floats:
        """Steps in which these parts of these ranks last as long as those of the other ranks; (steps,). What
        is gained only because ranks that were late in turns are then late at random is left out."""
        steps, count = self._arrival.shape
        own = np.asarray(ranks, np.int64)
        others = np.setdiff1d(np.arange(count), own)
        if not len(others) or not steps:
            return self.job.played
        part = self.group(parts)
        rest = self._arrival[:, own] - part[:, own]
        latest_other = self._arrival[:, others].max(axis=1)
        total, shifted = np.zeros(steps), np.zeros(steps)
        number = np.arange(steps)
        for shift in self._random.integers(0, steps, SHIFTS):
            then = (number + shift) % steps
            donors = part[:, self._random.choice(others, len(own))]
            total += np.maximum(latest_other, (rest + donors[then]).max(axis=1))
            shifted += np.maximum(latest_other, (rest + part[:, own][then]).max(axis=1))
        by_shift = interval(self.job.played - shifted / SHIFTS)
        if not by_shift.surely > 0:
            return total / SHIFTS
        # As far as the others' times vary, too: who alone is late at times takes no turns.
        varies = part.std(axis=0)
        in_turns = min(1.0, float(varies[others].mean() / varies[own].mean())) if varies[own].any() else 0.0
        return total / SHIFTS + in_turns * by_shift.mean

    def each_like_others(self, late: Sequence[tuple[int, Sequence[str]]]) -> Floats:
        """Steps in which each of these ranks has as much of its parts as ranks that are not late by the same;
        (steps,). late: ranks, each with the parts it is late by."""
        steps = len(self._arrival)
        ranks = sorted({rank for rank, _ in late})
        rest = self._arrival[:, ranks].copy()
        donors = []
        for rank, parts in late:
            part = self.group(parts)
            rest[:, ranks.index(rank)] -= part[:, rank]
            same = [other for other, its in late if its == parts]
            others = np.setdiff1d(np.arange(part.shape[1]), same)
            donors.append((ranks.index(rank), part, others if len(others) else np.array([rank])))
        latest_other = np.delete(self._arrival, ranks, axis=1).max(axis=1, initial=0.0)
        total, number = np.zeros(steps), np.arange(steps)
        for shift in self._random.integers(0, steps, SHIFTS):
            then = rest.copy()
            for column, part, others in donors:
                then[:, column] += part[(number + shift) % steps, self._random.choice(others)]
            total += np.maximum(latest_other, then.max(axis=1))
        return total / SHIFTS

    def held_up(self, ranks: Sequence[int], group: str) -> Floats:
        """How much less the communication would take all if these ranks were kept off it no longer than the
        others, (steps,)."""
        times = self.job.in_transfer.get(group)
        if times is None or not len(times):
            return np.zeros(len(self._arrival))
        own: Floats = times[:, list(ranks)].max(axis=1)
        if (own <= 0).all():  # as is usual
            return np.zeros(len(own))
        more: Floats = own - np.delete(times, list(ranks), axis=1).max(axis=1, initial=0.0)
        return more.clip(min=0)

    def all_like_others(self, rank: int) -> Floats:
        """Steps in which this rank is as the others are in everything, (steps,)."""
        then = self.like_others([rank], list(self.job.parts))
        for group in self.job.in_transfer:
            then = then - self.held_up([rank], group)
        return then

    def least_without(self, rank: int) -> float:
        """Mean step of the other ranks, s; 0 where there are none."""
        others = np.delete(self._arrival, rank, axis=1)
        return float(others.max(axis=1).mean()) if others.size else 0.0

    def without_parts(self, parts: Sequence[str]) -> Floats:
        """Steps without these parts of the account on any rank, during the communication, too; (steps,)."""
        held = sum(self.held_up(range(len(self.job.ranks)), part) for part in parts)
        return self.without(parts) - held

    def without(self, parts: Sequence[str], share: Floats | float = 1.0) -> Floats:
        """Steps without these parts on any rank, or without a share of them; (steps,). share: by rank."""
        left: Floats = (self._arrival - share * self.group(parts)).max(axis=1)
        return left

    def without_transfer(self) -> Floats:
        """Steps in which nobody waits for the communication itself; (steps,)."""
        if not len(self.job.own):
            return self.job.played
        # What a rank leaves the barrier after the last arrival is transfer, and how unevenly ranks leave it.
        longest: Floats = (self._arrival - self.job.left.min(axis=1, keepdims=True).clip(min=0)).max(axis=1)
        # While ranks are kept off it, it is not the communication that takes long.
        for group, times in self.job.in_transfer.items():
            # What all lack of CPUs alike is part of it.
            late = [int(times.mean(axis=0).argmax())] if group == LACKING else range(len(self.job.ranks))
            longest = longest + self.held_up(late, group)
        return np.minimum(longest, self.job.played)

    def group(self, parts: Sequence[str]) -> Floats:
        """The sum of parts, (steps, ranks)."""
        total: Floats = np.zeros_like(self._arrival)
        for part in parts:
            if part in self.job.parts:
                total = total + self.job.parts[part]
        return total

    def lost(self) -> float:
        """Seconds a step that ranks wait for each other, the mean over ranks."""
        return float((self.job.played - self._arrival.mean(axis=1)).mean()) if len(self._arrival) else 0.0


def differences(job: Job, parts: Sequence[str]) -> Floats:
    """How much longer the sum of parts is on each rank than the median of the others', means; (ranks,)."""
    means = np.zeros(len(job.ranks))
    for part in parts:
        if part in job.parts and len(job.parts[part]):
            means = means + job.parts[part].mean(axis=0)
    more: Floats = means - median_of_others(means)
    return more


def median_of_others(values: Floats) -> Floats:
    """For each value the median of all but it."""
    count = len(values)
    if count < 2:
        return values
    order = np.argsort(values, kind="stable")
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    ordered = values[order]
    low, high = (count - 2) // 2, (count - 1) // 2
    middle: Floats = (ordered[low + (low >= place)] + ordered[high + (high >= place)]) / 2
    return middle
