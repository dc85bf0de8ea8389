"""Why a job is slower than it could be: what is fixed in its replay, what that gives, and whether it is
real.

Accounts add up, so what makes a rank late is in the parts that it has more of than the others. A part is
named if the job played without the difference is faster by LEAST_GAIN of a step, with a chance of error of 1
in 100 shared by all candidates. CPU time decides before what it was spent on: kernels are often known for few
steps only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..account.account import Account
from ..account.replay import Replay
from ..account.signals import RankSignals
from ..account.synchronous_job import BESIDE, Job, job_of
from ..barrier import Grid
from ..intervals import ENOUGH_STEPS, LEAST_STEPS
from . import busy_node, independent, synchronous
from .by_need import by_need, with_sure_waits
from .cause import ASLEEP, LEAST_ASLEEP, Cause, may_be_idle, may_wait_unseen, parts_of_all
from .kinds import OF_CONTENTION
from .synchronous import Several

CONTENTION = ("contention", "contention_own", "contention_unknown")  # kinds
UNEXPLAINED = 0.5  # of what is lost that nothing named makes up: more makes the conclusion unsure
UNCLEAR = 0.1  # of a step that ranks wait for each other, without a cause: unclear, not healthy
REPLAY_ERROR = 0.05  # of a step, of the replay with nothing fixed: more makes it unsure
UNATTRIBUTED = 0.1  # of a step: more makes the account unsure
NOT_EXPLAINED = 0.9  # of a step: with more nothing is known of a job in which nothing is named


class BoundBy(NamedTuple):
    """What most of a step goes to, where nothing is wrong."""

    part: str
    share: float  # of the step
    of_roof: float | None  # of compute: what the roof would need of it; None: not known


class Conclusion(NamedTuple):
    """kind: bottleneck; healthy: nothing is named; unclear: ranks wait for no single cause, or much time goes
    to what a job could do without, but too unevenly to name it; unknown: too few steps, all but nothing of
    their time is explained, or ranks sleep and may wait for each other."""

    kind: str
    bottleneck: Cause | None
    also: list[Cause]
    bound_by: BoundBy | None
    steps: int  # that it rests on
    step: float  # mean, s
    lost: float  # s a step that ranks wait for each other
    confidence: str  # high, low
    # Of low: few_steps, replay_differs, unattributed, passing, more_is_lost, uneven, waits_in_kernels,
    # waits_unseen, ranks_unseen, gpus_in_turns.
    why: tuple[str, ...]
    whole: bool = False  # `step` has what lies between two steps, too: some rank does much there
    several: Several | None = None  # of unclear: ranks that are late for different reasons


def conclude(
    signals: Sequence[RankSignals],
    accounts: Sequence[Account],
    grid: Grid | None,
    foreign: Mapping[str, float] | None = None,
    node: busy_node.BusyNode | None = None,
) -> Conclusion:
    """What holds a job of ranks up.

    accounts: of the signals, in their order. grid: of ranks that meet at barriers; None: they step
    independently. foreign: host -> CPUs that processes other than the job's kept busy, mean; not of hosts
    where that is not known. node: the only one of the job, if it is busy.
    """
    divided = by_need(signals, accounts)
    job = job_of(signals, with_sure_waits(signals, divided), grid) if grid is not None else None
    if job is not None and len(job.measured) >= LEAST_STEPS:
        return _of_synchronous(signals, accounts, job, foreign or {}, node)
    if grid is not None and len(signals) > 1:
        # They meet, but it was hardly ever seen who waits for whom; that steps are equally long says nothing.
        steps = len(job.measured) if job is not None else 0
        return Conclusion(
            "unknown",
            None,
            [],
            _bound(accounts, _shares(accounts)),
            steps,
            _mean_step(accounts),
            0.0,
            "low",
            ("few_steps",),
        )
    return _of_independent(signals, divided, foreign or {}, node)


def _of_synchronous(
    signals: Sequence[RankSignals],
    accounts: Sequence[Account],
    job: Job,
    foreign: Mapping[str, float],
    node: busy_node.BusyNode | None,
) -> Conclusion:
    replay = Replay(job)
    played = job.played
    step = float(played.mean())
    known = {one.rank: one for one in signals}
    mine = [known[rank] for rank in job.ranks]
    causes = synchronous.of_ranks(replay, mine, foreign) + synchronous.of_all(replay, mine, foreign)
    if node is not None:
        of_rank = {one.rank: one for one in accounts}
        # Of the steps that are played: an account may have others, as the first one, which others wait for.
        waits = job.played[:, None] - job.own
        may_lack = (waits + replay.group(OF_CONTENTION)).mean(axis=0).tolist()
        divided = [of_rank[rank] for rank in job.ranks]
        causes = busy_node.with_its_causes(causes, mine, divided, step, node, may_lack)
    lost = replay.lost()
    why = []
    if len(played) < ENOUGH_STEPS:
        why.append("few_steps")
    if len(mine) > 1 and all(one.on_gpu_meets for one in mine):
        why.append("waits_in_kernels")
    measured = float(job.measured.mean())
    if abs(step - measured) > REPLAY_ERROR * measured:
        why.append("replay_differs")
    found = _conclusion(causes, mine, accounts, len(played), step, lost, why)
    if not causes and (several := synchronous.of_several(replay)) is not None:
        found = found._replace(kind="unclear", several=several)
    return found._replace(whole=BESIDE in job.parts)


def _of_independent(
    signals: Sequence[RankSignals],
    accounts: Sequence[Account],
    foreign: Mapping[str, float],
    node: busy_node.BusyNode | None,
) -> Conclusion:
    """Each rank's rate is its own: one that is slower costs the job only its own part."""
    pairs = [
        (s, a)
        for s, a in zip(signals, accounts, strict=True)
        if len(a.duration) >= LEAST_STEPS and a.duration.any()
    ]
    if not pairs:
        steps = min((len(one.duration) for one in accounts), default=0)
        step, bound = _mean_step(accounts), _bound(accounts, _shares(accounts))
        return Conclusion("unknown", None, [], bound, steps, step, 0.0, "low", ("few_steps",))
    known, mine = [s for s, _ in pairs], [a for _, a in pairs]
    lasting = np.array([float(one.duration.mean()) for one in mine])
    step = len(mine) / float((1 / lasting).sum())
    steps = min(len(one.duration) for one in mine)
    causes = [
        *independent.of_slower_ranks(known, mine, lasting, foreign),
        *independent.of_all(known, mine, lasting, foreign),
    ]
    if node is not None:
        lost = busy_node.lost_of(mine)
        causes = busy_node.with_its_causes(causes, known, mine, step, node, lost)
    why = ["few_steps"] if steps < ENOUGH_STEPS else []
    return _conclusion(causes, known, mine, steps, step, 0.0, why)


def _conclusion(
    causes: Sequence[Cause],
    signals: Sequence[RankSignals],
    accounts: Sequence[Account],
    steps: int,
    step: float,
    lost: float,
    why: Sequence[str],
) -> Conclusion:
    ordered = sorted(causes, key=lambda cause: (not cause.lasting, -cause.gain.mean))
    shares = _shares(accounts)
    low_confidence = list(why)
    if shares.get("other", 0.0) > UNATTRIBUTED:
        low_confidence.append("unattributed")
    bottleneck = next((one for one in ordered[:1] if one.lasting and not one.is_minor), None)
    also = [cause for cause in ordered if cause is not bottleneck]
    bound = _bound(accounts, shares)
    kind = "healthy"
    if bottleneck is not None:
        kind = "bottleneck"
        left = lost - sum(cause.gain.mean for cause in ordered)
        if left > max(UNCLEAR * step, UNEXPLAINED * lost):
            low_confidence.append("more_is_lost")
    elif any(not one.is_minor for one in also) or lost > UNCLEAR * step:
        kind = "unclear"
        if also and not also[0].lasting:
            low_confidence.append("passing")
    elif (part := _could_do_without(signals, shares, bound)) is not None:
        kind, bound = "unclear", BoundBy(part, shares[part], None)
        low_confidence.append("uneven")
    elif (part := _asleep_or_waiting(signals, shares)) is not None:
        kind, bound = "unknown", BoundBy(part, shares[part], None)
        low_confidence.append("waits_unseen")
    elif bound is not None and bound.part == "other" and bound.share > NOT_EXPLAINED:
        kind = "unknown"
    elif may_be_idle(signals):
        low_confidence.append("gpus_in_turns")
    confidence = "low" if low_confidence else "high"
    return Conclusion(kind, bottleneck, also, bound, steps, step, lost, confidence, tuple(low_confidence))


def beside_idle_cpus(found: Conclusion, idle: Collection[str], hosts: Collection[str]) -> Conclusion:
    """This conclusion, where ranks that lack CPUs are on nodes whose CPUs are mostly idle: nobody took those.
    hosts: of the job."""

    def renamed(cause: Cause) -> Cause:
        where = [cause.host] if cause.host else hosts
        is_beside = cause.kind in CONTENTION and bool(where) and set(where) <= set(idle)
        return cause._replace(kind="contention_bound") if is_beside else cause

    bottleneck = renamed(found.bottleneck) if found.bottleneck is not None else None
    return found._replace(bottleneck=bottleneck, also=[renamed(cause) for cause in found.also])


def beside_unseen_ranks(found: Conclusion) -> Conclusion:
    """This conclusion, where the ranks also meet some that were not seen: what looks like communication may
    be waiting for those, and then nothing is gained by faster links."""

    def renamed(cause: Cause) -> Cause:
        if cause.part != "transfer":
            return cause
        return cause._replace(kind="unseen_ranks", gain=cause.gain._replace(low=0.0))

    bottleneck = renamed(found.bottleneck) if found.bottleneck is not None else None
    also, why = [renamed(cause) for cause in found.also], (*found.why, "ranks_unseen")
    return found._replace(bottleneck=bottleneck, also=also, confidence="low", why=why)


def _could_do_without(
    signals: Sequence[RankSignals], shares: Mapping[str, float], bound: BoundBy | None
) -> str | None:
    """The part that all could do without and have so much of that it would hold them up; None: there is none.
    Contention must be most of a step: fixing less gains less than its share."""
    much = {
        part: shares[part]
        for part, (_, least) in parts_of_all(signals).items()
        if shares.get(part, 0.0) >= least and (part != "contention" or (bound and bound.part == part))
    }
    return max(much, key=lambda part: much[part]) if much else None


def _asleep_or_waiting(signals: Sequence[RankSignals], shares: Mapping[str, float]) -> str | None:
    """The part of a step in which ranks sleep, if it is much and they may wait for each other; else None."""
    part = max(ASLEEP, key=lambda name: shares.get(name, 0.0))
    return part if shares.get(part, 0.0) >= LEAST_ASLEEP and may_wait_unseen(signals) else None


def _shares(accounts: Sequence[Account]) -> dict[str, float]:
    """Part -> share of all steps of all ranks."""
    whole = sum(float(one.duration.sum()) for one in accounts)
    found: dict[str, float] = {}
    for one in accounts:
        for part, seconds in one.sums.items():
            part = "contention" if part in OF_CONTENTION else part
            found[part] = found.get(part, 0.0) + seconds / whole if whole > 0 else 0.0
    return found


def _bound(accounts: Sequence[Account], shares: Mapping[str, float]) -> BoundBy | None:
    """What most time goes to, but waiting for other ranks, which is what those do. shares: see `_shares`."""
    shares = {part: share for part, share in shares.items() if part != "wait_ranks"}
    if not shares or not max(shares.values()) > 0:
        return None
    part = max(shares, key=lambda name: shares[name])
    return BoundBy(part, shares[part], _of_roof(accounts) if part == "compute" else None)


def _of_roof(accounts: Sequence[Account]) -> float | None:
    """What the roof would need of the time that kernels took."""
    needed = took = 0.0
    for one in accounts:
        if one.roof is not None and "compute" in one.parts:
            roof, compute = one.roof, one.parts["compute"]
            if np.count_nonzero(known := ~np.isnan(roof)) < len(roof):
                roof, compute = roof[known], compute[known]
            needed += float(roof.sum())
            took += float(compute.sum())
    return needed / took if took > 0 and needed > 0 else None


def _mean_step(accounts: Sequence[Account]) -> float:
    known = [one.duration for one in accounts if len(one.duration)]
    return float(np.concatenate(known).mean()) if known else 0.0
