"""How a rate is measured: the same work on all CPUs at once, several times after a warm-up.

A ceiling is what the machine can do, and whatever disturbs a run only takes away from that, so the value is
the best run, as in STREAM (McCalpin 1995) and the Empirical Roofline Toolkit; the spread says how far the
worst run fell short of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from roofline_agent.calibrate.team import Task, run_together

_MIB = 1 << 20
# Runs that differ by more shared the CPUs with something; on an idle machine they differ by a few hundredths.
_DISTURBED = 0.2


class Plan(NamedTuple):
    """How much effort goes into each ceiling."""

    run_s: float  # about as long is each run
    repeats: int  # after the warm-up; twice as many if these differ much
    caches: float  # working set over the last-level caches, if memory allows
    most_bytes: int | None = None  # of the working set, whatever the caches


# STREAM's rule: the arrays together at least four times the last-level caches.
FULL = Plan(run_s=0.1, repeats=7, caches=4.0)
QUICK = Plan(run_s=0.004, repeats=2, caches=4.0, most_bytes=48 * _MIB)


class Job(NamedTuple):
    """Work that can be repeated: `tasks(n)` gives each CPU n units of it."""

    tasks: Callable[[int], Sequence[Task]]
    work: float  # FLOP or bytes of one unit on every CPU, all together
    first_units: int  # a guess on the low side of what fills a run


class Rate(NamedTuple):
    best: float  # work per second
    spread: float  # (best - worst) / best
    runs: int


def measure_rate(cpus: Sequence[int], plan: Plan, job: Job) -> Rate:
    """The rate over all the CPUs together. Raises CalibrationError if one of them can't be had."""

    def seconds(units: int) -> float:
        return run_together(cpus, job.tasks(units))

    units = units_for(plan.run_s, job.first_units, seconds)
    return repeat(plan.repeats, lambda: job.work * units / seconds(units))


def units_for(target_s: float, first_units: int, seconds: Callable[[int], float]) -> int:
    """How many units take about `target_s`; finding out is the warm-up.

    Grows until a run lasts at least half as long: a shorter one tells little, and the clock of a CPU that
    idled needs some time to rise.
    """
    units = first_units
    while (took := seconds(units)) < target_s / 2:
        units *= 4 if took < target_s / 8 else 2
    return max(1, round(units * target_s / took))


def repeat(repeats: int, run: Callable[[], float]) -> Rate:
    """The best of the rates that `run` gives, with a second chance if something seems to disturb them."""
    rates = [run() for _ in range(repeats)]
    if summarize(rates).spread > _DISTURBED:
        rates += [run() for _ in range(repeats)]
    return summarize(rates)


def summarize(rates: Sequence[float]) -> Rate:
    best = max(rates)
    return Rate(best, (best - min(rates)) / best, len(rates))


def describe_effort(cpus: Sequence[int], plan: Plan, rate: Rate) -> str:
    """The end of a ceiling's method text."""
    threads = "1 thread on 1 CPU" if len(cpus) == 1 else f"{len(cpus)} threads, one on each CPU"
    return (
        f"{threads}; best of {rate.runs} runs of at least about {plan.run_s:g} s after a warm-up, "
        "each from the first thread's start to the last one's end"
    )
