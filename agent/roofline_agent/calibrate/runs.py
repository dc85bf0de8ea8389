"""How a rate is measured: the same work on some CPUs at once, several times after a warm-up.

A ceiling is what the machine can do, and whatever disturbs a run only takes away from that, so the value is
the best run, as in STREAM (McCalpin 1995) and the Empirical Roofline Toolkit; the spread is how far the
worst run fell short of it, and the median is kept next to it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from roofline_agent.calibrate.hardware import Hardware
from roofline_agent.calibrate.team import Task, Took, run_together

_MIB = 1 << 20
# Runs that differ by more shared the CPUs with something; on an idle machine they differ by a few hundredths.
_DISTURBED = 0.2
# Threads start one after the other, some 50 us apart: with many of them a run must be longer to hide that.
_CPUS_OF_A_SHORT_RUN = 16
# CPUs of one kind differ by a few hundredths; the small cores of a hybrid CPU take half as long again.
_UNEVEN = 1.2


class RunPlan(NamedTuple):
    """How much effort goes into each ceiling."""

    run_s: float  # about as long is each run
    repeats: int  # after the warm-up; twice as many if these differ much
    caches: float  # working set over the last-level caches, if memory allows
    everything: bool = False  # also what makes no roof: one core, narrow vectors without FMA, the whole sweep
    most_bytes: int | None = None  # of the working set, whatever the caches
    sweep_repeats: int = 3
    patient: bool = True  # a second chance for runs that were disturbed
    limit: float | None = None  # how many CPUs' time a cgroup grants; None: no limit is known

    def throttles(self, cpus: Sequence[int]) -> bool:
        """Whether the limit stops threads on so many CPUs now and then."""
        return self.limit is not None and self.limit < len(cpus)


# The arrays together are at least four times the last-level caches; STREAM asks that of each array.
NORMAL = RunPlan(run_s=0.03, repeats=10, caches=4.0)
FULL = NORMAL._replace(everything=True)
QUICK = RunPlan(run_s=0.002, repeats=2, caches=4.0, most_bytes=48 * _MIB, sweep_repeats=1, patient=False)
PLANS = {"quick": QUICK, "normal": NORMAL, "full": FULL}


class Job(NamedTuple):
    """Work that can be repeated: `tasks(units)` gives CPU k so many units of it as stand there."""

    tasks: Callable[[Sequence[int]], Sequence[Task]]
    work: float  # FLOP or bytes of one unit on every CPU, all together
    first_units: int  # a guess on the low side of what fills a run
    clocks_hz: Callable[[], tuple[float | None, ...]] = lambda: ()  # of each core right after the latest run


class Rate(NamedTuple):
    best: float  # work per second
    median: float
    spread: float  # (best - worst) / best
    runs: int
    clock_hz: float | None = None  # mean of the cores, right after the fastest runs, the least disturbed
    fair: bool = True  # each CPU did the same work; else in proportion to its speed


def measure_rate(cpus: Sequence[int], plan: RunPlan, job: Job) -> Rate:
    """The rate over all the CPUs together. Raises CalibrationError if one of them can't be had.

    Where a cgroup's limit stops the threads now and then, a run counts for as long as the limit takes to
    grant the CPU time that it used: how often it was stopped meanwhile is chance.
    """
    throttled = plan.throttles(cpus)
    seen: list[tuple[float, Sequence[float | None]]] = []

    def took(units: Sequence[int]) -> Took:
        run = run_together(cpus, job.tasks(units))
        return run._replace(whole=run.used / plan.limit) if throttled and plan.limit else run

    count = len(cpus)
    last: list[Took] = []

    def warm_up(units: int) -> float:
        last[:] = [took([units] * count)]
        return last[0].whole

    each = units_for(run_seconds(plan, cpus), job.first_units, warm_up)
    differ = not throttled and _uneven(last[0].each)
    units = shares(each, count, took) if differ else (each,) * count

    def run() -> float:
        rate = job.work / count * sum(units) / took(units).whole
        seen.append((rate, job.clocks_hz()))
        return rate

    rate = repeat(plan.repeats, run, plan.patient)
    return rate._replace(clock_hz=clock_of_fastest(seen), fair=len(set(units)) == 1)


def shares(each: int, count: int, took: Callable[[Sequence[int]], Took]) -> tuple[int, ...]:
    """Units of each CPU: `each`, or where CPUs differ in speed (hybrid ones, clocks) in proportion to it.

    Else all would wait for the slowest. The rate stays all work over the time of the whole, so that shares
    that don't fit make it lower, never higher; they are taken only where they make it higher.
    """
    equal = (each,) * count
    # The best of several: an interruption of one CPU does not make it a slow one.
    seen = [took(equal) for _ in range(3)]
    speeds = [1 / max(1e-9, min(run.each[k] for run in seen)) for k in range(count)]
    if not _uneven(speeds):
        return equal
    fitted = tuple(max(1, round(each * count * speed / sum(speeds))) for speed in speeds)
    equal_rate = sum(equal) / min(run.whole for run in seen)
    fitted_rate = sum(fitted) / min(took(fitted).whole for _ in seen)
    return fitted if fitted_rate > equal_rate else equal


def _uneven(values: Sequence[float]) -> bool:
    return max(values) > _UNEVEN * max(min(values), 1e-9)


def clock_of_fastest(seen: Sequence[tuple[float, Sequence[float | None]]]) -> float | None:
    """The mean over the cores of each one's clock in the faster half of some runs (rate, clocks).

    Of a core the upper quartile counts: an interruption makes a clock look lower, often. A core taken away
    between its work and the look at its clock may have sped up again, but such runs are seldom among the
    fastest. None where no clock was seen.
    """
    fastest = sorted(seen, key=lambda run: run[0], reverse=True)[: (len(seen) + 1) // 2]
    cores = zip(*(clocks for _, clocks in fastest), strict=True)
    known = [sorted(clocks) for core in cores if (clocks := [clock for clock in core if clock])]
    return statistics.fmean(clocks[(3 * len(clocks) - 1) // 4] for clocks in known) if known else None


def run_seconds(plan: RunPlan, cpus: Sequence[int]) -> float:
    """How long each run on so many CPUs is to be, about."""
    return plan.run_s * max(1.0, len(cpus) / _CPUS_OF_A_SHORT_RUN)


def units_for(target_s: float, first_units: int, seconds: Callable[[int], float]) -> int:
    """How many units take about `target_s`; finding out is the warm-up.

    Grows until a run lasts at least half as long: a shorter one shows little, and the clock of a CPU that
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


def describe_effort(cpus: Sequence[int], hardware: Hardware, plan: RunPlan, rate: Rate) -> str:
    """The end of a ceiling's method text."""
    threads = "1 thread on 1 CPU" if len(cpus) == 1 else f"{len(cpus)} threads, one on each CPU"
    if hardware.is_part:
        threads = (
            f"{len(cpus)} thread{'s' if len(cpus) > 1 else ''} on {len(cpus)} of {hardware.node_cpus} CPUs"
        )
    if plan.throttles(cpus):
        threads += f" within a limit of {plan.limit:g} CPUs, by CPU time"
    threads += "" if rate.fair else ", which differ: work in proportion to their speeds"
    return (
        f"{threads}; best of {rate.runs} runs of about {run_seconds(plan, cpus):g} s after a warm-up, "
        "each from the first thread's start to the last one's end"
    )
