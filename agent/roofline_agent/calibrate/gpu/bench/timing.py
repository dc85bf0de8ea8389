"""The same work several times after a warm-up: best, median, spread.

As with the CPUs (calibrate/runs.py) a ceiling is what the device can do, and whatever disturbs a run only
takes away from that: the value is the best run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    Timed = Callable[[int], tuple[float, float | None]]  # units -> (seconds, SM clock in Hz where known)
MOST_UNITS = 1 << 20
_SHARE_BESIDE_OTHERS = 0.1


class Plan(NamedTuple):
    """How much effort goes into each ceiling."""

    run_s: float  # about as long is each run
    warm_s: float  # at least so long is the warm-up
    repeats: int
    sizes: tuple[int, ...]  # of square matrices
    longest_s: float  # a unit of work that takes longer is left out
    array_bytes: tuple[int, int]  # least and most of one array that must not fit into the caches
    launches: int  # of a run that times launches
    memory: float = 1.0  # share of the free memory that counts as free

    def sharing(self) -> Plan:
        """For a GPU that others use: its free memory is mostly left to them."""
        return self._replace(memory=_SHARE_BESIDE_OTHERS)


FULL = Plan(0.05, 0.2, 7, (2048, 4096, 8192, 16384), 0.5, (256 << 20, 2 << 30), 10_000)
QUICK = Plan(0.004, 0.0, 2, (256, 512), 0.5, (4 << 20, 8 << 20), 200)


class Timing(NamedTuple):
    best: float
    median: float
    spread: float  # (most - least) / most
    runs: int
    clock_hz: float | None


class TooLong(Exception):
    """One unit of the work takes longer than the plan allows."""


class TooShort(Exception):
    """The clock did not move, whatever was done."""


def measure_rate(timed: Timed, amount: float, plan: Plan) -> Timing:
    """amount: FLOPs or bytes of a unit. Raises TooLong and TooShort."""
    units = _units(timed, plan)
    runs = [timed(units) for _ in range(plan.repeats)]
    if min(seconds for seconds, _ in runs) <= 0:
        raise TooShort("by the clock it took no time")
    return fastest([amount * units / seconds for seconds, _ in runs], [clock for _, clock in runs])


def _units(timed: Timed, plan: Plan) -> int:
    """As many as take about the plan's time; finding out is the warm-up, in which the clock rises."""
    timed(1)  # the first one loads code and chooses an algorithm
    units, warm_s = 1, 0.0
    while True:
        took, _ = timed(units)
        warm_s += took
        if units == 1 and took > plan.longest_s:
            raise TooLong(f"one takes {took:.2g} s")
        if took >= plan.run_s / 2:
            if warm_s >= plan.warm_s:
                return max(1, min(MOST_UNITS, round(units * plan.run_s / took)))
        elif units >= MOST_UNITS:
            return units
        else:
            units *= 4 if took < plan.run_s / 8 else 2


def fastest(rates: Sequence[float], clocks: Sequence[float | None] = ()) -> Timing:
    """A summary of rates: the most is the best."""
    return _summary(rates, max(rates), clocks)


def shortest(seconds: Sequence[float], clocks: Sequence[float | None] = ()) -> Timing:
    """A summary of times: the least is the best."""
    return _summary(seconds, min(seconds), clocks)


def _summary(values: Sequence[float], best: float, clocks: Sequence[float | None]) -> Timing:
    known = [clock for clock in clocks if clock]
    return Timing(
        best,
        statistics.median(values),
        (max(values) - min(values)) / max(values),
        len(values),
        statistics.median(known) if known else None,
    )
