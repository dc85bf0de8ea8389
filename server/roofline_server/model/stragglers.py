"""Which rank holds the others up, and by what: the one that waits least at the barrier, step after step.

In a synchronous training a rank's lateness in a step is how much later than the first it came to the barrier
(`barrier.lateness`). Its cost is its lateness less the median of the others', averaged over steps: the time a
step would be shorter for them if it came when they do. It is named when that is a good part of the step and
more than chance: chance makes every rank last now and then, and its costs cancel out. Asynchronous ranks hold
nobody up; there a rank whose own steps take longer than the others' is named.

What it loses the time with is found by comparing it with the others: time in input, time runnable without a
CPU, time computing; what shows in none of these is a delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..records import Floats, Ints
from ..sentences import waits as texts

LEAST_SHARE = 0.1  # of a step that a cause costs
LEAST_CERTAINTY = 3.0  # standard errors that its mean cost is above zero
LEAST_STEPS = 5
SLOWER = 1.25  # an asynchronous rank's median step against the others'
INPUT_SHARE = 0.25  # of its step that a rank waits for input
EXPLAINS = 0.5  # of a cost that a component must make up to be called its reason


class RankTimes(NamedTuple):
    """What is known of one rank's own steps, seconds per step; None or NaN where it is not known.

    lead: from the begin of the step to its first kernel.
    """

    rank: str
    host: str
    duration: Floats
    input: Floats | None = None
    lead: Floats | None = None
    kernels: Floats | None = None
    cpu: Floats | None = None
    cpu_wait: Floats | None = None  # summed over threads
    starved: Floats | None = None  # about how much of the step it lacked a CPU, see `starved`
    stopped: float | None = None  # share of its steps in which its process was seen stopped


class Finding(NamedTuple):
    """A rank that costs time. cost: seconds a step; share: of a step. steps: in which it was last,
    of_steps: of how many; both 0 where it is not about being last."""

    rank: str
    host: str
    kind: str
    cost: float
    share: float
    steps: int
    of_steps: int
    evidence: list[str]


def starved(duration: Floats, cpu: Floats, cpu_wait: Floats) -> Floats:
    """Seconds of each step that a rank lacked a CPU: the time its threads waited for one, over how many of
    them ran or waited at once on average (at least one)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        at_once = np.maximum(1.0, (cpu + cpu_wait) / duration)
    return cpu_wait / at_once


def late_ranks(ranks: Sequence[RankTimes], late: Floats) -> list[Finding]:
    """Of ranks that meet at barriers those that the others wait for, the dearest first.

    late: seconds after the first, (steps, ranks), NaN where not known; see `barrier.lateness`.
    """
    if len(ranks) < 2:
        return []
    late = late[1:] if len(late) > LEAST_STEPS else late  # the first step is unlike the others everywhere
    step = float(np.median(np.concatenate([r.duration for r in ranks])))
    costs = late - medians_of_others(late)
    last = _last_to_come(late)
    found = []
    for column, rank in enumerate(ranks):
        cost, error = mean_and_error(costs[:, column])
        steps = int(np.sum(~np.isnan(costs[:, column])))
        if cost is None or cost <= LEAST_SHARE * step or cost < certainty(steps, len(ranks)) * error:
            continue
        times_last = int(np.sum(last == column))
        kind, why = reason(rank, ranks, cost)
        evidence = [texts.came_last(times_last, steps, cost), *why]
        share = cost / step if step > 0 else 0.0
        found.append(Finding(rank.rank, rank.host, kind, cost, share, times_last, steps, evidence))
    return sorted(found, key=lambda f: -f.cost)


def _last_to_come(late: Floats) -> Ints:
    """Per step the column of the rank that came last; -1 where all came at once or none is known."""
    some = np.where(np.isnan(late), 0.0, late)
    return np.where(some.max(axis=1, initial=0.0) > 0, np.argmax(some, axis=1) if some.size else -1, -1)


def certainty(steps: int, ranks: int) -> float:
    """Standard errors that a mean over so many steps must be above zero, for a chance of 1 in 100 that any of
    so many healthy ranks is named: Student's quantile by its expansion (Abramowitz and Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(1 - 0.01 / ranks)
    freedom = max(1, steps - 1)
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return max(LEAST_CERTAINTY, t)


def slow_ranks(ranks: Sequence[RankTimes]) -> list[Finding]:
    """Of ranks that step independently those whose steps take clearly longer than the others'."""
    known = [r for r in ranks if len(r.duration) >= LEAST_STEPS]
    if len(known) < 2:
        return []
    medians = np.array([np.median(r.duration[1:]) for r in known])
    found = []
    for at, rank in enumerate(known):
        others = float(np.median(np.delete(medians, at)))
        cost = float(medians[at]) - others
        if medians[at] <= SLOWER * others or not cost > 0:
            continue
        kind, why = reason(rank, known, cost)
        evidence = [texts.slower(float(medians[at]), others), *why]
        share = cost / float(medians[at])
        found.append(Finding(rank.rank, rank.host, kind, cost, share, 0, 0, evidence))
    return sorted(found, key=lambda f: -f.cost)


def starved_of_input(ranks: Sequence[RankTimes]) -> list[Finding]:
    """Ranks that spend a good part of their steps waiting for input."""
    found = []
    for rank in ranks:
        waited, step = average(rank.input), average(rank.duration)
        if waited is None or not step or waited < INPUT_SHARE * step:
            continue
        evidence = [texts.waits_for_input(waited, step)]
        found.append(Finding(rank.rank, rank.host, "input", waited, waited / step, 0, 0, evidence))
    return sorted(found, key=lambda f: -f.cost)


def reason(rank: RankTimes, ranks: Sequence[RankTimes], cost: float) -> tuple[str, list[str]]:
    """What a rank loses `cost` seconds a step with, compared with the others: (kind, sentences)."""
    more = {name: more_than_others(rank, ranks, name) for name in ("input", "lead", "kernels", "cpu")}
    more["starved"] = more_starved(rank, ranks)
    evidence = [texts.stopped(rank.stopped)] if rank.stopped else []
    for name, extra in more.items():
        if extra and extra > 0.1 * cost:
            evidence.append(texts.more_than_others(name, extra))
    if rank.stopped and rank.stopped > 0.05:
        return "delay", evidence

    # The first that makes up enough of the cost, the surest cause before what may follow from it.
    kinds = {"input": "input", "cpu": "compute", "starved": "cpu", "kernels": "compute", "lead": "input"}
    for name, kind in kinds.items():
        extra = more[name]
        if extra is not None and extra >= EXPLAINS * cost:
            return kind, [*evidence, texts.INPUT_OR_ELSE] if name == "lead" else evidence
    return "delay", [*evidence, texts.NO_CAUSE]


def more_than_others(rank: RankTimes, ranks: Sequence[RankTimes], name: str) -> float | None:
    """How much more of something a rank has a step, on average, than the median of the others."""
    own = average(getattr(rank, name))
    others = [average(getattr(other, name)) for other in ranks if other is not rank]
    known = [value for value in others if value is not None]
    if own is None or not known:
        return None
    return own - float(np.median(known))


def more_starved(rank: RankTimes, ranks: Sequence[RankTimes]) -> float | None:
    """How much more of its step a rank lacks a CPU than it would if it lacked one as often as the others do:
    on a node with too few CPUs for all, whoever takes longer also waits longer for one."""
    own, lasts = average(rank.starved), average(rank.duration)
    both = [(average(other.starved), average(other.duration)) for other in ranks if other is not rank]
    usual = [lacks / takes for lacks, takes in both if lacks is not None and takes]
    if own is None or lasts is None or not usual:
        return None
    return own - lasts * float(np.median(usual))


def average(column: Floats | None) -> float | None:
    """Mean over the steps but the first, where there are enough."""
    if column is None:
        return None
    known = column[~np.isnan(column)]
    known = known[1:] if len(known) > LEAST_STEPS else known
    return float(known.mean()) if len(known) else None


def medians_of_others(late: Floats) -> Floats:
    """For each step and rank the median over the other known ranks, (steps, ranks); NaN without any."""
    steps, ranks = late.shape
    order = np.argsort(late, axis=1)  # NaN last
    ordered = np.take_along_axis(late, order, axis=1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(ranks), (steps, ranks)), axis=1)
    known = np.sum(~np.isnan(late), axis=1)[:, None]
    others = known - (place < known)  # how many of them; a rank that is not known is none of them

    def nth(at: Ints) -> Floats:
        # Behind its own place everybody moves up by one.
        return np.take_along_axis(ordered, np.clip(at + (at >= place), 0, ranks - 1), axis=1)

    middle: Floats = (nth((others - 1) // 2) + nth(others // 2)) / 2
    return np.where(others > 0, middle, np.nan)


def mean_and_error(values: Floats) -> tuple[float | None, float]:
    """Mean and its standard error; None with too few values."""
    known = values[~np.isnan(values)]
    if len(known) < LEAST_STEPS:
        return None, 0.0
    return float(known.mean()), float(known.std(ddof=1) / np.sqrt(len(known)))


def verdict(causes: Sequence[Finding], why_unknown: str, waits: Floats, step: float) -> str:
    """One sentence. why_unknown: why late ranks are not known, else "". waits: (steps, ranks), seconds."""
    if causes:
        worst = causes[0]
        return texts.straggler(worst.rank, worst.kind, worst.cost, worst.share)
    if why_unknown:
        return texts.unknown(why_unknown)
    known = ~np.isnan(waits)
    steps = int(known.any(axis=1).sum())
    if waits.size and steps < LEAST_STEPS:
        return texts.too_few_steps(steps)
    waited = float(waits[known].mean()) if known.any() else 0.0
    if step > 0 and waited >= LEAST_SHARE * step:
        return texts.for_none_in_particular(waited, waited / step)
    return texts.NONE
