"""What costs time if ranks step independently: a slower one costs the job only its own part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...records import Floats
from ..account.account import Account
from ..account.replay import median_of_others
from ..account.signals import RankSignals
from ..intervals import Interval, around, error_beyond_others, mean_and_error
from .cause import (
    CHANCE,
    LEAST_GAIN,
    LEAST_OF_OWN,
    Cause,
    chance_of,
    holds_up,
    is_worth_a_name,
    lasts,
    parts_of_all,
    seconds_of,
    without_parts_of_sets,
)
from .kinds import GROUPS, OF_CONTENTION, kind_of, who_has_the_cpus, work_of


def of_slower_ranks(
    signals: Sequence[RankSignals], accounts: Sequence[Account], lasting: Floats, foreign: Mapping[str, float]
) -> list[Cause]:
    """Ranks that have more of a part of their own than the others, and by that clearly longer steps. What
    costs each of some ranks much, but the job hardly anything, is one cause of all of them."""
    count = len(accounts)
    if count < 2:
        return []
    step = count / float((1 / lasting).sum())
    slower = lasting - median_of_others(lasting)
    lacking = sum(float(seconds_of(one, OF_CONTENTION).mean()) for one in accounts) / count / step
    found = []
    for group, parts in GROUPS.items():
        columns = [seconds_of(one, parts) for one in accounts]
        means = np.array([float(column.mean()) for column in columns])
        more = means - median_of_others(means)
        saves = np.minimum(more, slower)
        mended = 1 / (lasting - saves) - 1 / lasting
        gains = step - count / (count / step + mended)
        much = (gains > LEAST_GAIN * step) | (saves >= LEAST_OF_OWN * lasting)
        late = np.flatnonzero((saves > 0) & much).tolist()
        errors = np.array([mean_and_error(column)[1] for column in columns]) if late else np.zeros(0)
        for rank in late:
            saved, gain, own_step = float(saves[rank]), float(gains[rank]), float(lasting[rank])
            error = error_beyond_others(errors, rank)
            chance = chance_of(group, signals, [rank], count * len(GROUPS))
            sure = around(gain, gain / saved * error, min(len(a.duration) for a in accounts), chance)
            above = columns[rank] - means[rank] + saved
            surely_saved = sure.surely * saved / gain if saved >= LEAST_OF_OWN * own_step else 0.0
            surely = max(sure.surely / step, surely_saved / own_step)
            if surely <= LEAST_GAIN or not lasts(above, own_step):
                continue
            present = [
                part
                for part in parts
                if part not in OF_CONTENTION[1:] and any(part in one.parts for one in accounts)
            ]
            own = {part: _part_more(accounts, part, rank) for part in present}
            work = work_of(signals, [rank])
            kind = kind_of(group, own, work, [signals[rank]], signals, foreign)
            if is_worth_a_name(kind, saved / own_step, lacking):
                one = accounts[rank]
                found.append(Cause(kind, group, (one.rank,), one.host, sure, step, own, work))
    return _minor_ones_together(without_parts_of_sets(found), signals)


def _minor_ones_together(causes: Sequence[Cause], signals: Sequence[RankSignals]) -> list[Cause]:
    alike: dict[tuple[str, str], list[Cause]] = {}
    for one in causes:
        if one.is_minor:
            alike.setdefault((one.kind, one.part), []).append(one)
    minor = [_as_one(some, signals) if len(some) > 1 else some[0] for some in alike.values()]
    return [*(one for one in causes if not one.is_minor), *minor]


def _as_one(causes: Sequence[Cause], signals: Sequence[RankSignals]) -> Cause:
    """Of causes that each cost the job hardly anything: rates add up."""
    first, step = causes[0], causes[0].step
    gained = sum(1 / (step - one.gain.mean) - 1 / step for one in causes)
    whole = step - 1 / (1 / step + gained)
    scale = whole / sum(one.gain.mean for one in causes)
    gain = Interval(*(scale * sum(ends) for ends in zip(*(one.gain for one in causes), strict=True)))
    ranks = [one.rank for one in signals]
    own = sorted(ranks.index(one.ranks[0]) for one in causes)
    hosts = {one.host for one in causes}
    return first._replace(
        ranks=tuple(ranks[rank] for rank in own),
        host=first.host if len(hosts) == 1 else "",
        gain=gain,
        more={part: sum(one.more[part] for one in causes) / len(causes) for part in first.more},
        work=work_of(signals, own),
    )


def of_all(
    signals: Sequence[RankSignals], accounts: Sequence[Account], lasting: Floats, foreign: Mapping[str, float]
) -> list[Cause]:
    """Parts that every rank has and could do without. lasting: mean step of each, s."""
    step = len(accounts) / float((1 / lasting).sum())
    steps = min(len(one.duration) for one in accounts)
    found = []
    looked_at = parts_of_all(signals)
    for part, (parts, least) in looked_at.items():
        columns = [seconds_of(one, parts) for one in accounts]
        means = np.array([float(column.mean()) for column in columns])
        if not means.min() > 0:
            continue
        common = float(means.min())
        left = np.maximum(lasting - common, 1e-9)  # a step may be nothing else
        gain = step - len(accounts) / float((1 / left).sum())
        if gain <= least * step:
            continue
        errors = [mean_and_error(column)[1] for column in columns]
        sure = around(gain, gain / common * float(np.max(errors)), steps, CHANCE / len(looked_at))
        if holds_up(sure, least, step):
            kind = who_has_the_cpus(signals, common, foreign) if part == "contention" else part
            found.append(Cause(kind, part, (), "", sure, step, {part: common}))
    return found


def _part_more(accounts: Sequence[Account], part: str, rank: int) -> float:
    means = np.array([one.mean(part) for one in accounts])
    return float((means - median_of_others(means))[rank])
