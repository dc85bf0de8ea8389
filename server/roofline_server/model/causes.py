"""Why a job is slower than it could be: what is mended in its replay, what that gives, and whether it is
real.

Accounts add up, so what makes a rank late is in the parts that it has more of than the others. A part is
named when playing the job without the difference is faster by LEAST_GAIN of a step, but for a chance of 1 in
100 shared by all that was looked at. CPU time decides before what it went to: kernels are often known of few
steps only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from ..records import Floats
from .account import Account, spread_by
from .barrier import Grid
from .intervals import (
    ENOUGH_STEPS,
    LEAST_STEPS,
    Interval,
    correlation_time,
    interval,
    mean_and_error,
    student,
)
from .kinds import (
    COUNTED,
    CPU_TIME,
    FOR_INPUT,
    GROUPS,
    GROUPS_OF_ROUNDS,
    MORE_WORK,
    NEEDED,
    OF_CONTENTION,
    kind_of,
    who_has_the_cpus,
    work_of,
    work_of_each,
)
from .replay import Job, Replay, differences, job_of, median_of_others
from .signals import RankSignals

LEAST_GAIN = 0.02  # of a step: what is sure to be less is not worth a name
CHANCE = 0.01  # that anything is named of a job that is healthy
OF_KNOWN = 0.05  # that a gain is not real, of ranks that were found by what was counted and not by times
MOSTLY_TRANSFER = 0.4  # of a step: from here on the communication itself is the bottleneck
LEAST_CHANCE = 1e-9  # below it quantiles are not exact, nor are bootstraps
LOOKED_AT = 16  # differences that are played, the largest first
UNEXPLAINED = 0.5  # of what is lost that nothing named makes up: more makes the conclusion unsure
UNCLEAR = 0.1  # of a step that ranks wait for each other, without a cause: unclear, not healthy
REPLAY_ERROR = 0.05  # of a step, of the replay with nothing mended: more makes it unsure
UNATTRIBUTED = 0.1  # of a step: more makes the account unsure
NOT_EXPLAINED = 0.9  # of a step: with more nothing is known of a job in which nothing is named
MORE_CPU_TIME = 0.15  # than others for the same work: less may be a consequence of few CPUs (cold caches)
MORE_INPUT = 0.15
QUARTERS = 3  # of four quarters of the run in which a cause must be seen
LEAST_STRETCHES = 8  # that are independent of each other, or as many as a run of so few steps can have

# Parts that a job could do without on every rank -> the share of a step from which on that is a bottleneck.
EVERYWHERE = {
    "contention": 0.15,  # some of it is on every node where ranks are as many as CPUs
    "throttled": 0.1,
    "stopped": 0.1,
    "paging": 0.1,
    "disk": 0.1,
    "gc": 0.1,
    "input": 0.25,
}


class Cause(NamedTuple):
    """One thing that costs time. All seconds are of a step of the job."""

    kind: str  # more_work, slower, host, gc, contention, contention_own, throttled, stopped, input, disk, ...
    part: str  # of the account, or the group of parts that was mended
    ranks: tuple[str, ...]  # (): all
    host: str  # the node that all of them are on; "": several, or all ranks
    gain: Interval  # by which steps are shorter with it mended
    step: float  # mean step with nothing mended
    more: Mapping[str, float]  # part -> how much more of it they have than the others; of all: how much
    work: float | None = None  # work of a step against the others', 1: as much; None: not known
    lasting: bool = True  # seen in most of the run

    @property
    def share(self) -> float:
        return self.gain.mean / self.step if self.step > 0 else 0.0


class BoundBy(NamedTuple):
    """What most of a step goes to, where nothing is wrong."""

    part: str
    share: float  # of the step
    of_roof: float | None  # of compute: what the roof would need of it; None: not known


class Conclusion(NamedTuple):
    """kind: bottleneck; healthy: nothing is named; unclear: ranks wait for no single cause, or most time goes
    to what a job could do without, but too unevenly to name it; unknown: too few steps, or all but nothing of
    their time is explained."""

    kind: str
    bottleneck: Cause | None
    also: list[Cause]
    bound_by: BoundBy | None
    steps: int  # that it rests on
    step: float  # mean, s
    lost: float  # s a step that ranks wait for each other
    confidence: str  # high, low
    why: tuple[str, ...]  # of low: few_steps, replay_differs, unattributed, passing, more_is_lost, uneven


def conclude(
    signals: Sequence[RankSignals],
    accounts: Sequence[Account],
    grid: Grid | None,
    foreign: Mapping[str, float] | None = None,
) -> Conclusion:
    """What holds a job of ranks up.

    accounts: of the signals, in their order. grid: of ranks that meet at barriers; None: they step
    independently. foreign: host -> CPUs that processes other than the job's kept busy, mean; not of hosts
    where that is not known.
    """
    divided = _by_need(signals, accounts)
    job = job_of(signals, divided, grid) if grid is not None else None
    if job is not None and len(job.measured) >= LEAST_STEPS:
        return _of_synchronous(signals, accounts, job, foreign or {})
    if grid is not None and len(signals) > 1:
        # They meet, but it was hardly ever seen who waits for whom; that steps are equally long says nothing.
        steps = len(job.measured) if job is not None else 0
        return Conclusion(
            "unknown", None, [], _bound(accounts), steps, _mean_step(accounts), 0.0, "low", ("few_steps",)
        )
    return _of_independent(signals, divided, foreign or {})


def _by_need(signals: Sequence[RankSignals], accounts: Sequence[Account]) -> list[Account]:
    """Accounts with contention divided: where CPUs are few, a rank that needs more CPU time than the others
    waits longer for it too, in proportion. That much is NEEDED, a consequence of its CPU time; the same of
    waits in its input, where it has more of that."""
    if any(one.on_gpu for one in signals):
        return list(accounts)
    more_work = work_of_each(signals) > 1 + MORE_WORK
    input_delays = [_spread_delay(one) for one in signals]
    with_input = _shares_beyond(
        [_column(one, ["input"]) for one in accounts], np.full(len(accounts), MORE_INPUT)
    )
    with_cpu = _shares_beyond(
        [_column(one, CPU_TIME) for one in accounts], np.where(more_work, MORE_WORK, MORE_CPU_TIME)
    )
    return [_divided(*one) for one in zip(accounts, input_delays, with_input, with_cpu, strict=True)]


def _shares_beyond(columns: Sequence[Floats], least: Floats) -> list[float]:
    """Of each rank the share of a time that it has beyond the median of the others; 0 where it has not at
    least so much more."""
    means = np.array([float(column.mean()) if len(column) else 0.0 for column in columns])
    usual = median_of_others(means)
    enough = (usual > 0) & (means > (1 + least) * usual)
    beyond: list[float] = (1 - np.divide(usual, means, out=np.ones_like(means), where=enough)).tolist()
    return beyond


def _spread_delay(one: RankSignals) -> Floats | None:
    """Waits for a CPU in the phase input, of all steps."""
    if one.input is None or one.input_delay is None or one.waits_for_servers:
        return None
    return np.nan_to_num(spread_by(one.input, one.input_delay))


def _divided(one: Account, input_delay: Floats | None, for_input: float, for_cpu: float) -> Account:
    waited = one.parts.get("contention")
    if waited is None or not (for_input > 0 or for_cpu > 0):
        return one
    parts = dict(one.parts)
    if input_delay is not None and for_input > 0:
        parts[FOR_INPUT] = np.minimum(waited, for_input * input_delay)
        waited = waited - parts[FOR_INPUT]
    return one._replace(parts={**parts, "contention": (1 - for_cpu) * waited, NEEDED: for_cpu * waited})


# -- ranks that meet at barriers ----------------------------------------------------------------------------


def _of_synchronous(
    signals: Sequence[RankSignals], accounts: Sequence[Account], job: Job, foreign: Mapping[str, float]
) -> Conclusion:
    replay = Replay(job)
    played = job.played()
    step = float(played.mean())
    known = {one.rank: one for one in signals}
    mine = [known[rank] for rank in job.ranks]
    causes = _of_ranks(replay, mine, foreign) + _of_all(replay, mine, foreign)
    lost = replay.lost()
    why = []
    if len(played) < ENOUGH_STEPS:
        why.append("few_steps")
    measured = float(job.measured.mean())
    if abs(step - measured) > REPLAY_ERROR * measured:
        why.append("replay_differs")
    return _conclusion(causes, accounts, len(played), step, lost, why)


def _of_ranks(replay: Replay, signals: Sequence[RankSignals], foreign: Mapping[str, float]) -> list[Cause]:
    """Causes that some ranks have and others do not."""
    job, played = replay.job, replay.job.played()
    count, step = len(job.ranks), float(played.mean())
    if count < 2:
        return []
    more = {group: differences(job, parts) for group, parts in GROUPS_OF_ROUNDS.items()}
    present = [group for group, parts in GROUPS_OF_ROUNDS.items() if any(part in job.parts for part in parts)]
    tried: list[tuple[float, str, tuple[int, ...], int]] = []
    for group in present:
        late = np.flatnonzero(more[group] > LEAST_GAIN / 2 * step)
        tried += [(float(more[group][rank]), group, (int(rank),), count) for rank in late]
    tried = sorted(tried, key=lambda one: -one[0])[:LOOKED_AT]
    for group in present:
        # As many sets of so many ranks could have been the ones; nodes there are no more than ranks.
        tried += [(0.0, group, some, comb(count, len(some))) for some in _alike(more[group], step)]
        tried += [(0.0, group, some, count) for some in _of_nodes(job.hosts, more[group], step)]
    found = []
    for _, group, ranks, others in tried:
        gain = played - replay.like_others(ranks, GROUPS_OF_ROUNDS[group])
        sure = interval(gain, _chance(group, signals, ranks, others * len(present)))
        if sure.surely > LEAST_GAIN * step:
            found.append(_cause_of(replay, signals, group, ranks, gain, sure, foreign))
    return _without_parts_of_sets(found)


def _chance(group: str, signals: Sequence[RankSignals], ranks: Sequence[int], looked_at: int) -> float:
    """That a gain is not real, in one of so many places that are looked at. Ranks with more work, or that
    were counted to be stopped or throttled, were not found by looking at their times: those are one place."""
    if group in COUNTED or (group == "cpu" and (work_of(signals, ranks) or 1.0) > 1 + MORE_WORK):
        return OF_KNOWN
    return max(LEAST_CHANCE, CHANCE / min(looked_at, 10**9))


def _alike(more: Floats, step: float) -> list[tuple[int, ...]]:
    """Ranks that have about as much more of something, where they are few and the others have far less."""
    most = float(more.max())
    late = np.flatnonzero(more > max(LEAST_GAIN * step, most / 2))
    others = np.delete(more, late)
    clear = 1 < len(late) <= len(more) // 2 and float(others.max()) < most / 4
    return [tuple(late.tolist())] if clear else []


def _of_nodes(hosts: Sequence[str], more: Floats, step: float) -> list[tuple[int, ...]]:
    """The ranks of each node that have more of something than the ranks of others."""
    names = list(dict.fromkeys(hosts))
    on = [np.array([host == name for host in hosts]) for name in names] if len(names) > 1 else []
    return [
        tuple(np.flatnonzero(here).tolist())
        for here in on
        if here.sum() > 1 and float(more[here].min()) > LEAST_GAIN / 2 * step
    ]


def _without_parts_of_sets(causes: Sequence[Cause]) -> list[Cause]:
    """Each rank once for each part: alone, or among others where mending all of them gives clearly more."""
    kept: list[Cause] = []
    for one in sorted(causes, key=lambda cause: (-cause.gain.mean, len(cause.ranks))):
        if not any(_overlap(one.part, other.part) and set(one.ranks) & set(other.ranks) for other in kept):
            kept.append(one)
    return kept


def _overlap(one: str, other: str) -> bool:
    """Whether two groups have a part in common."""
    return not set(GROUPS_OF_ROUNDS[one]).isdisjoint(GROUPS_OF_ROUNDS[other])


def _cause_of(
    replay: Replay,
    signals: Sequence[RankSignals],
    group: str,
    ranks: Sequence[int],
    gain: Floats,
    sure: Interval,
    foreign: Mapping[str, float],
) -> Cause:
    job = replay.job
    own = list(ranks)
    more = {}
    for part in GROUPS_OF_ROUNDS[group]:
        if part in job.parts:
            more[part] = float(differences(job, [part])[own].mean())
    needed = more.pop(NEEDED, 0.0) + more.pop(FOR_INPUT, 0.0)
    work = work_of(signals, own)
    names = tuple(job.ranks[rank] for rank in own)
    hosts = {job.hosts[rank] for rank in own}
    host = next(iter(hosts)) if len(hosts) == 1 else ""
    kind = kind_of(group, more, work, [signals[rank] for rank in own], signals, foreign)
    step = float(job.played().mean())
    more |= {"contention": needed} if needed > 0 else {}
    return Cause(kind, group, names, host, sure, step, more, work, _lasts(gain, step))


def _of_all(replay: Replay, signals: Sequence[RankSignals], foreign: Mapping[str, float]) -> list[Cause]:
    """Parts that every rank has and could do without."""
    job, played = replay.job, replay.job.played()
    step = float(played.mean())
    found = []
    for part, least in EVERYWHERE.items():
        if part not in job.parts:
            continue
        whole = OF_CONTENTION if part == "contention" else (part,)
        means = replay.group(whole).mean(axis=0)
        if not means.min() > 0:
            continue
        # What one rank has more of it than the others is its own cause.
        gain = played - replay.without(whole, means.min() / means)
        sure = interval(gain, CHANCE / len(EVERYWHERE))
        if _everywhere(sure, least, step):
            kind = who_has_the_cpus(signals, float(means.min()), foreign) if part == "contention" else part
            host = job.hosts[0] if len(set(job.hosts)) == 1 else ""
            more = {part: float(means.mean())}
            found.append(Cause(kind, part, (), host, sure, step, more, None, _lasts(gain, step)))
    gain = played - replay.without_transfer()
    sure = interval(gain, CHANCE / len(EVERYWHERE))
    if len(job.ranks) > 1 and _everywhere(sure, MOSTLY_TRANSFER, step):
        more = {"transfer": float(gain.mean())}
        found.append(Cause("transfer", "transfer", (), "", sure, step, more, None, _lasts(gain, step)))
    return found


def _everywhere(gain: Interval, least: float, step: float) -> bool:
    """Whether what all ranks have is as much of a step as it must be to hold a job up, and real."""
    return gain.mean > least * step and gain.surely > LEAST_GAIN * step


def _lasts(gain: Floats, step: float) -> bool:
    """Whether a gain is there in most of the run, and not only in one stretch of it, or in few."""
    least = max(LEAST_GAIN * step, float(gain.mean())) / 2
    short = np.array_split(gain, LEAST_STRETCHES)
    if sum(float(one.mean()) > least for one in short if len(one)) >= LEAST_STRETCHES - 1:
        return True  # nearly always, however it drifts
    if 2 * correlation_time(gain) > max(np.sqrt(len(gain)), len(gain) / LEAST_STRETCHES):
        return False
    return sum(float(quarter.mean()) > least for quarter in np.array_split(gain, 4)) >= QUARTERS


# -- ranks that step independently --------------------------------------------------------------------------


def _of_independent(
    signals: Sequence[RankSignals], accounts: Sequence[Account], foreign: Mapping[str, float]
) -> Conclusion:
    """Each rank's rate is its own: one that is slower costs the job only its own part."""
    pairs = [
        (s, a)
        for s, a in zip(signals, accounts, strict=True)
        if len(a.duration) >= LEAST_STEPS and a.duration.any()
    ]
    if not pairs:
        steps = min((len(one.duration) for one in accounts), default=0)
        step, bound = _mean_step(accounts), _bound(accounts)
        return Conclusion("unknown", None, [], bound, steps, step, 0.0, "low", ("few_steps",))
    known, mine = [s for s, _ in pairs], [a for _, a in pairs]
    lasting = np.array([float(one.duration.mean()) for one in mine])
    rate = float((1 / lasting).sum())
    step = len(mine) / rate
    steps = min(len(one.duration) for one in mine)
    causes = _of_slower_ranks(known, mine, lasting, foreign)
    for part, least in EVERYWHERE.items():
        columns = [_column(one, OF_CONTENTION if part == "contention" else (part,)) for one in mine]
        means = np.array([float(column.mean()) for column in columns])
        if not means.min() > 0:
            continue
        common = float(means.min())
        left = np.maximum(lasting - common, 1e-9)  # a step may be nothing else
        gain = step - len(mine) / float((1 / left).sum())
        if gain <= least * step:
            continue
        errors = [mean_and_error(column)[1] for column in columns]
        sure = _around(gain, gain / common * float(np.max(errors)), steps, CHANCE / len(EVERYWHERE))
        if _everywhere(sure, least, step):
            kind = who_has_the_cpus(known, common, foreign) if part == "contention" else part
            causes.append(Cause(kind, part, (), "", sure, step, {part: common}))
    return _conclusion(causes, mine, steps, step, 0.0, ["few_steps"] if steps < ENOUGH_STEPS else [])


def _of_slower_ranks(
    signals: Sequence[RankSignals], accounts: Sequence[Account], lasting: Floats, foreign: Mapping[str, float]
) -> list[Cause]:
    """Ranks that have more of a part of their own than the others, and by that clearly longer steps."""
    count = len(accounts)
    if count < 2:
        return []
    step = count / float((1 / lasting).sum())
    slower = lasting - median_of_others(lasting)
    found = []
    for group, parts in GROUPS.items():
        columns = [_column(one, parts) for one in accounts]
        means = np.array([float(column.mean()) for column in columns])
        more = means - median_of_others(means)
        saves = np.minimum(more, slower)
        mended = 1 / (lasting - saves) - 1 / lasting
        gains = step - count / (count / step + mended)
        late = np.flatnonzero((saves > 0) & (gains > LEAST_GAIN * step)).tolist()
        errors = np.array([mean_and_error(column)[1] for column in columns]) if late else np.zeros(0)
        for rank in late:
            saved, gain = float(saves[rank]), float(gains[rank])
            others = np.delete(errors, rank)
            # The median of so many normal values varies by sqrt(pi / 2) as much as their mean.
            error = float(np.hypot(errors[rank], np.sqrt(np.pi / 2 * (others**2).mean() / len(others))))
            chance = _chance(group, signals, [rank], count * len(GROUPS))
            sure = _around(gain, gain / saved * error, min(len(a.duration) for a in accounts), chance)
            above = columns[rank] - means[rank] + saved
            if sure.surely <= LEAST_GAIN * step or not _lasts(above, float(lasting[rank])):
                continue
            present = [
                part
                for part in parts
                if part not in OF_CONTENTION[1:] and any(part in one.parts for one in accounts)
            ]
            own = {part: _part_more(accounts, part, rank) for part in present}
            work = work_of(signals, [rank])
            kind = kind_of(group, own, work, [signals[rank]], signals, foreign)
            one = accounts[rank]
            found.append(Cause(kind, group, (one.rank,), one.host, sure, step, own, work))
    return _without_parts_of_sets(found)


def _column(one: Account, parts: Sequence[str]) -> Floats:
    total = np.zeros_like(one.duration)
    for part in parts:
        if part in one.parts:
            total = total + one.parts[part]
    return total


def _part_more(accounts: Sequence[Account], part: str, rank: int) -> float:
    means = np.array([float(one.parts[part].mean()) if part in one.parts else 0.0 for one in accounts])
    return float((means - median_of_others(means))[rank])


def _around(mean: float, error: float, steps: int, chance: float) -> Interval:
    """Interval of something whose error is known, that of blocks of the root of so many steps."""
    freedom = max(3, int(np.sqrt(steps)) - 1)
    half = student(0.975, freedom) * error
    return Interval(mean, mean - half, mean + half, mean - student(1 - chance, freedom) * error)


# -- the conclusion -----------------------------------------------------------------------------------------


def _conclusion(
    causes: Sequence[Cause],
    accounts: Sequence[Account],
    steps: int,
    step: float,
    lost: float,
    why: Sequence[str],
) -> Conclusion:
    ordered = sorted(causes, key=lambda cause: (not cause.lasting, -cause.gain.mean))
    shares = _shares(accounts)
    doubts = list(why)
    if shares.get("other", 0.0) > UNATTRIBUTED:
        doubts.append("unattributed")
    bottleneck = ordered[0] if ordered and ordered[0].lasting else None
    also = [cause for cause in ordered if cause is not bottleneck]
    bound = _bound(accounts)
    kind = "healthy"
    if bottleneck is not None:
        kind = "bottleneck"
        left = lost - sum(cause.gain.mean for cause in ordered)
        if left > max(UNCLEAR * step, UNEXPLAINED * lost):
            doubts.append("more_is_lost")
    elif also or lost > UNCLEAR * step:
        kind = "unclear"
        if also and not also[0].lasting:
            doubts.append("passing")
    elif bound is not None and bound.part in EVERYWHERE and bound.share >= EVERYWHERE[bound.part]:
        kind = "unclear"  # the job could do without it
        doubts.append("uneven")
    elif bound is not None and bound.part == "other" and bound.share > NOT_EXPLAINED:
        kind = "unknown"
    confidence = "low" if doubts else "high"
    return Conclusion(kind, bottleneck, also, bound, steps, step, lost, confidence, tuple(doubts))


def _shares(accounts: Sequence[Account]) -> dict[str, float]:
    """Part -> share of all steps of all ranks."""
    whole = sum(float(one.duration.sum()) for one in accounts)
    found: dict[str, float] = {}
    for one in accounts:
        for part, seconds in one.parts.items():
            part = "contention" if part in OF_CONTENTION else part
            found[part] = found.get(part, 0.0) + float(seconds.sum()) / whole if whole > 0 else 0.0
    return found


def _bound(accounts: Sequence[Account]) -> BoundBy | None:
    """What most time goes to, but waiting for other ranks, which is what those do."""
    shares = {part: share for part, share in _shares(accounts).items() if part != "wait_ranks"}
    if not shares or not max(shares.values()) > 0:
        return None
    part = max(shares, key=lambda name: shares[name])
    return BoundBy(part, shares[part], _of_roof(accounts) if part == "compute" else None)


def _of_roof(accounts: Sequence[Account]) -> float | None:
    """What the roof would need of the time that kernels took."""
    needed = took = 0.0
    for one in accounts:
        if one.roof is not None and "compute" in one.parts:
            known = ~np.isnan(one.roof)
            needed += float(one.roof[known].sum())
            took += float(one.parts["compute"][known].sum())
    return needed / took if took > 0 and needed > 0 else None


def _mean_step(accounts: Sequence[Account]) -> float:
    known = [one.duration for one in accounts if len(one.duration)]
    return float(np.concatenate(known).mean()) if known else 0.0
