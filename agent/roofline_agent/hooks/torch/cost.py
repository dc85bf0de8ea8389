"""PyTorch: what the hooks cost a step, as the fact "cost.hooks_ns".

One step in 64 measures it, later one in 512: its hooks add what they took to Recorder.spent. Pure logic."""

from __future__ import annotations

from typing import List, Optional

SAMPLED, SELDOM, OFTEN = 63, 511, 1024  # masks of the numbers of steps; until this one the first
EARLIEST = 8
COST_EVERY_NS, FEWEST_COSTS, MOST_COSTS = 5000000000, 3, 15


def is_before_sampled(number: int) -> bool:
    """Whether the step after this one is to measure what the hooks cost."""
    return number & _mask(number) == EARLIEST


def next_before_sampled(number: int) -> int:
    """The first step from this one on after which one does."""
    mask = _mask(number - EARLIEST + SAMPLED)
    return (number + mask - EARLIEST & ~mask) + EARLIEST


def _mask(number: int) -> int:
    return SAMPLED if number <= OFTEN else SELDOM


class HookCosts:
    """What the hooks cost in the newest steps that were measured."""

    def __init__(self) -> None:
        self.worked_ns = 0  # by working out calm steps since the last one that was measured
        self._number = 0  # of that
        self._costs: List[int] = []
        self._reported_ns = 0

    def add(self, number: int, spent_ns: int, now: int) -> Optional[int]:
        """In step `number` the hooks took so much; what they usually take, if that is to be reported now."""
        steps, self._number = number - self._number, number
        spent_ns += self.worked_ns // max(1, steps)
        self.worked_ns = 0
        self._costs = [*self._costs[1 - MOST_COSTS :], spent_ns]
        # The first finds the code cold, and says little.
        if len(self._costs) < FEWEST_COSTS or now - self._reported_ns <= COST_EVERY_NS:
            return None
        self._reported_ns = now
        # The median: a thread may lose its CPU anywhere, also in a hook.
        return sorted(self._costs)[len(self._costs) // 2]
