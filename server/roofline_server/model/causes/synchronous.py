"""What costs time if ranks meet at barriers: their steps are played again with one thing fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from ...records import Floats
from ..account.replay import Replay, differences, median_of_others
from ..account.signals import RankSignals
from ..account.synchronous_job import LACKING, Job
from ..intervals import Interval, interval
from .cause import (
    CHANCE,
    EVERYWHERE,
    LEAST_GAIN,
    Cause,
    chance_of,
    holds_up,
    is_worth_a_name,
    lasts,
    parts_of_all,
    without_parts_of_sets,
)
from .kinds import (
    COUNTED,
    FOR_INPUT,
    GROUPS_OF_ROUNDS,
    NEEDED,
    OF_CONTENTION,
    kind_of,
    who_has_the_cpus,
    work_of,
)

MOSTLY_TRANSFER = 0.4  # of a step: from here on the communication itself is the bottleneck
LOOKED_AT = 16  # differences that are played, the largest first
SEVERAL = 0.1  # of a step: what fixing several ranks together must gain for them to be named


class Late(NamedTuple):
    """What makes one of several ranks late."""

    rank: str
    part: str  # of the account, that it has most more of
    more: float  # s a step, than the others


class Several(NamedTuple):
    """Ranks that are late for different reasons: to fix one of them gains little, as the others stay late."""

    late: tuple[Late, ...]
    gain: Interval  # s a step, with all of them fixed


def of_ranks(replay: Replay, signals: Sequence[RankSignals], foreign: Mapping[str, float]) -> list[Cause]:
    """Causes that some ranks have and others do not."""
    job, played = replay.job, replay.job.played
    count, step = len(job.ranks), float(played.mean())
    if count < 2:
        return []
    more = {group: differences(job, parts) for group, parts in GROUPS_OF_ROUNDS.items()}
    present = [group for group, parts in GROUPS_OF_ROUNDS.items() if any(part in job.parts for part in parts)]
    for group, times in job.in_transfer.items():
        if times.any():
            means = times.mean(axis=0)
            more[group] = more[group] + means - median_of_others(means)
            present += [group] if group not in present else []
    tried: list[tuple[float, str, tuple[int, ...], int]] = []
    for group in present:
        late = np.flatnonzero(more[group] > LEAST_GAIN / 2 * step)
        tried += [(float(more[group][rank]), group, (int(rank),), count) for rank in late]
    tried = sorted(tried, key=lambda one: -one[0])[:LOOKED_AT]
    for group in present:
        # As many sets of so many ranks could have been the ones; nodes there are no more than ranks.
        sets = _alike(more[group], step) + _all_but_few(more[group], step)
        tried += [(0.0, group, some, comb(count, len(some))) for some in sets]
        tried += [(0.0, group, some, count) for some in _of_nodes(job.hosts, more[group], step)]
    found = []
    for _, group, ranks, others in tried:
        gain = played - replay.like_others(ranks, GROUPS_OF_ROUNDS[group]) + replay.held_up(ranks, group)
        sure = interval(gain, chance_of(group, signals, ranks, others * len(present)))
        if sure.surely > LEAST_GAIN * step:
            found.append(_cause_of(replay, signals, group, ranks, gain, sure, foreign))
    lacking = float(replay.group(OF_CONTENTION).mean()) / step
    return without_parts_of_sets([one for one in found if is_worth_a_name(one.kind, one.share, lacking)])


def _alike(more: Floats, step: float) -> list[tuple[int, ...]]:
    """Ranks that have about as much more of something, where they are few and the others have far less."""
    most = float(more.max())
    late = np.flatnonzero(more > max(LEAST_GAIN * step, most / 2))
    others = np.delete(more, late)
    clear = 1 < len(late) <= len(more) // 2 and float(others.max()) < most / 4
    return [tuple(late.tolist())] if clear else []


def _all_but_few(more: Floats, step: float) -> list[tuple[int, ...]]:
    """Most ranks, where they have about as much more of something than the few others."""
    beyond = more - more.min()
    most = float(beyond.max())
    late = np.flatnonzero(beyond > max(LEAST_GAIN * step, most / 2))
    others = np.delete(beyond, late)
    clear = len(more) / 2 < len(late) < len(more) and float(others.max()) < most / 4
    return [tuple(late.tolist())] if clear else []


def _of_nodes(hosts: Sequence[str], more: Floats, step: float) -> list[tuple[int, ...]]:
    """The ranks of each node that have more of something than the ranks of others."""
    on: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        on.setdefault(host, []).append(rank)
    return [
        tuple(ranks)
        for ranks in on.values()
        if 1 < len(ranks) < len(hosts) and float(more[ranks].min()) > LEAST_GAIN / 2 * step
    ]


def of_several(replay: Replay) -> Several | None:
    """Ranks that only together, and for different reasons, hold the job up; None: there are none. On crowded
    nodes it is chance who lacks CPUs."""
    job, played = replay.job, replay.job.played
    count, step = len(job.ranks), float(played.mean())
    if count < 2 or float(replay.group(OF_CONTENTION).mean()) >= EVERYWHERE["contention"] * step:
        return None
    groups = {name: parts for name, parts in GROUPS_OF_ROUNDS.items() if name not in COUNTED}
    more = {name: differences(job, parts) for name, parts in groups.items()}
    late = [
        (rank, name) for name in groups for rank in np.flatnonzero(more[name] > LEAST_GAIN * step).tolist()
    ]
    late = sorted(late, key=lambda one: -more[one[1]][one[0]])[:LOOKED_AT]

    def gain_of(some: Sequence[tuple[int, str]]) -> Floats:
        return played - replay.each_like_others([(rank, groups[name]) for rank, name in some])

    if len({rank for rank, _ in late}) < 2 or gain_of(late).mean() < SEVERAL * step:
        return None
    for one in late[::-1]:  # the least first: who is late no more than the others allow is not needed
        fewer = [other for other in late if other != one]
        if fewer and gain_of(late).mean() - gain_of(fewer).mean() < LEAST_GAIN * step:
            late = fewer
    gain = gain_of(late)
    sure = interval(gain, CHANCE / (count * len(groups)))
    if len({rank for rank, _ in late}) < 2 or sure.mean < SEVERAL * step or not lasts(gain, step):
        return None
    if sure.surely <= LEAST_GAIN * step:
        return None
    return Several(tuple(_late(job, rank, groups[name]) for rank, name in late), sure)


def _late(job: Job, rank: int, parts: Sequence[str]) -> Late:
    by_part = {part: float(differences(job, [part])[rank]) for part in parts if part in job.parts}
    return Late(job.ranks[rank], max(by_part, key=lambda part: by_part[part]), sum(by_part.values()))


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
    amid = float(replay.held_up(own, group).mean())
    of_kind = {**more, "contention": more.get("contention", 0.0) + amid} if group == LACKING else more
    kind = kind_of(group, of_kind, work, [signals[rank] for rank in own], signals, foreign)
    step = float(job.played.mean())
    more |= {"contention": needed} if needed > 0 else {}
    return Cause(kind, group, names, host, sure, step, more, work, lasts(gain, step), amid)


def of_all(replay: Replay, signals: Sequence[RankSignals], foreign: Mapping[str, float]) -> list[Cause]:
    """Parts that every rank has and could do without."""
    job, played = replay.job, replay.job.played
    step = float(played.mean())
    found = []
    looked_at = parts_of_all(signals)
    for part, (parts, least) in looked_at.items():
        whole = tuple(name for name in parts if name in job.parts)
        if not whole:
            continue
        means = replay.group(whole).mean(axis=0)
        if not means.min() > 0:
            continue
        # What one rank has more of it than the others is its own cause.
        gain = played - replay.without(whole, means.min() / means)
        sure = interval(gain, CHANCE / len(looked_at))
        if holds_up(sure, least, step):
            kind = who_has_the_cpus(signals, float(means.min()), foreign) if part == "contention" else part
            host = job.hosts[0] if len(set(job.hosts)) == 1 else ""
            more = {part: float(means.mean())}
            found.append(Cause(kind, part, (), host, sure, step, more, None, lasts(gain, step)))
    gain = played - replay.without_transfer()
    sure = interval(gain, CHANCE / len(looked_at))
    if len(job.ranks) > 1 and holds_up(sure, MOSTLY_TRANSFER, step):
        more = {"transfer": float(gain.mean())}
        # By the ends of kernels it is not seen whether ranks communicate after them.
        kind = "after_kernels" if any(one.barrier == "kernels" for one in signals) else "transfer"
        found.append(Cause(kind, "transfer", (), "", sure, step, more, None, lasts(gain, step)))
    return found
