"""How a rate is measured: the same work on some CPUs at once, several times after a warm-up.

A ceiling is what the machine can do, and whatever disturbs a run only takes away from that, so the value is
the best run, as in STREAM (McCalpin 1995) and the Empirical Roofline Toolkit; the spread says how far the
worst run fell short of it, and the median stands beside.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from roofline_agent.calibrate.team import Task, run_together

_MIB = 1 << 20
# Runs that differ by more shared the CPUs with something; on an idle machine they differ by a few hundredths.
_DISTURBED = 0.2
# Threads start one after the other, some 50 us apart: with many of them a run must be longer to hide that.
_CPUS_OF_A_SHORT_RUN = 16


class Plan(NamedTuple):
    """How much effort goes into each ceiling."""

    run_s: float  # about as long is each run
    repeats: int  # after the warm-up; twice as many if these differ much
    caches: float  # working set over the last-level caches, if memory allows
    everything: bool = False  # also what makes no roof: one core, narrow vectors without FMA, the whole sweep
    most_bytes: int | None = None  # of the working set, whatever the caches
    sweep_repeats: int = 3
    patient: bool = True  # a second chance for runs that were disturbed


# STREAM's rule: the arrays together at least four times the last-level caches.
NORMAL = Plan(run_s=0.03, repeats=10, caches=4.0)
FULL = NORMAL._replace(everything=True)
QUICK = Plan(run_s=0.002, repeats=2, caches=4.0, most_bytes=48 * _MIB, sweep_repeats=1)
PLANS = {"quick": QUICK, "normal": NORMAL, "full": FULL}
# A quota of CPU time counts in periods of 0.1 s: a shorter run could have more than its share.
_LIMITED_RUN_S = 0.4


def within_limit(plan: Plan, cpus: Sequence[int], limit: float | None) -> Plan:
    """The plan for CPUs of which a cgroup grants the time of `limit` only; None: no limit."""
    if limit is None or limit >= len(cpus):
        return plan
    return plan._replace(run_s=max(plan.run_s, _LIMITED_RUN_S))


class Job(NamedTuple):
    """Work that can be repeated: `tasks(n)` gives each CPU n units of it."""

    tasks: Callable[[int], Sequence[Task]]
    work: float  # FLOP or bytes of one unit on every CPU, all together
    first_units: int  # a guess on the low side of what fills a run
    clock_hz: Callable[[], float | None] = lambda: None  # the cores' clock right after the latest run


class Rate(NamedTuple):
    best: float  # work per second
    median: float
    spread: float  # (best - worst) / best
    runs: int
    clock_hz: float | None = None  # right after the fastest runs, which were disturbed least


def measure_rate(cpus: Sequence[int], plan: Plan, job: Job) -> Rate:
    """The rate over all the CPUs together. Raises CalibrationError if one of them can't be had."""
    seen: list[tuple[float, float]] = []

    def seconds(units: int) -> float:
        return run_together(cpus, job.tasks(units))

    units = units_for(run_seconds(plan, cpus), job.first_units, seconds)

    def run() -> float:
        rate = job.work * units / seconds(units)
        clock = job.clock_hz()
        seen.extend([] if clock is None else [(rate, clock)])
        return rate

    rate = repeat(plan.repeats, run, plan.patient)
    return rate._replace(clock_hz=clock_of_fastest(seen))


def clock_of_fastest(seen: Sequence[tuple[float, float]]) -> float | None:
    """The median clock of the faster half of some runs (rate, clock); None of none.

    An interruption makes a clock look lower, and a core taken away between its work and the look at its clock
    may have sped up again; such runs are seldom among the fastest.
    """
    fastest = sorted(seen, reverse=True)[: (len(seen) + 1) // 2]
    return statistics.median(clock for _, clock in fastest) if fastest else None


def run_seconds(plan: Plan, cpus: Sequence[int]) -> float:
    """How long each run on so many CPUs is to be, about."""
    return plan.run_s * max(1.0, len(cpus) / _CPUS_OF_A_SHORT_RUN)


def units_for(target_s: float, first_units: int, seconds: Callable[[int], float]) -> int:
    """How many units take about `target_s`; finding out is the warm-up.

    Grows until a run lasts at least half as long: a shorter one tells little, and the clock of a CPU that
    idled needs some time to rise.
    """
    units = first_units
    while (took := seconds(units)) < target_s / 2:
        units *= 4 if took < target_s / 8 else 2
    return max(1, round(units * target_s / took))


def repeat(repeats: int, run: Callable[[], float], patient: bool = True) -> Rate:
    """The rates that `run` gives, with a second chance if something seems to disturb them."""
    rates = [run() for _ in range(repeats)]
    if patient and summarize(rates).spread > _DISTURBED:
        rates += [run() for _ in range(repeats)]
    return summarize(rates)


def summarize(rates: Sequence[float]) -> Rate:
    best = max(rates)
    return Rate(best, statistics.median(rates), (best - min(rates)) / best, len(rates))


def describe_effort(cpus: Sequence[int], plan: Plan, rate: Rate) -> str:
    """The end of a ceiling's method text."""
    threads = "1 thread on 1 CPU" if len(cpus) == 1 else f"{len(cpus)} threads, one on each CPU"
    return (
        f"{threads}; best of {rate.runs} runs of about {run_seconds(plan, cpus):g} s after a warm-up, "
        "each from the first thread's start to the last one's end"
    )
