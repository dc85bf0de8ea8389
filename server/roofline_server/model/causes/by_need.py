"""Accounts with contention divided into what a rank brings on itself and what happens to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...records import Floats
from ..account.account import Account
from ..account.replay import median_of_others
from ..account.signals import RankSignals
from ..columns import mean_of, spread_by
from .kinds import CPU_TIME, FOR_INPUT, MORE_WORK, NEEDED, work_of_each

MORE_CPU_TIME = 0.15  # than others for the same work: less may be a consequence of few CPUs (cold caches)
BY_CACHES = 0.3  # of caches that others have emptied no more comes than this
MORE_INPUT = 0.15
OF_ROUND, UNSURE = "input|wait_ps", "input|contention|wait_ps"


def by_need(signals: Sequence[RankSignals], accounts: Sequence[Account]) -> list[Account]:
    """Accounts with contention divided: where CPUs are few, a rank that needs more CPU time than the others
    waits longer for it too, in proportion. That much is NEEDED, a consequence of its CPU time; the same of
    waits in its input, where it has more of that. Without more work it is so only where it waits longer by no
    larger a proportion: who waits longer finds his caches emptied, and needs some more CPU time for that."""
    if any(one.on_gpu for one in signals):
        return list(accounts)
    more_work = work_of_each(signals) > 1 + MORE_WORK
    with_input = _shares_beyond(_means(accounts, "input"), np.full(len(accounts), MORE_INPUT))
    cpu_time = _means(accounts, *CPU_TIME)
    waits = _means(accounts, "contention")
    computes = _proportions(cpu_time)
    on_its_own = more_work | (computes > 1 + BY_CACHES) | (_proportions(waits) <= computes)
    with_cpu = _shares_beyond(
        cpu_time, np.where(on_its_own, np.where(more_work, MORE_WORK, MORE_CPU_TIME), np.inf)
    )
    return [_divided(*one) for one in zip(signals, accounts, with_input, with_cpu, strict=True)]


def with_sure_waits(signals: Sequence[RankSignals], accounts: Sequence[Account]) -> list[Account]:
    """Accounts of workers of synchronous rounds in which one waits longer for input or servers than others do
    only if that is sure: in addition to what its account has, its other threads may have lacked a CPU one
    after the other."""
    at_most = np.array([one.mean(OF_ROUND) for one in accounts])
    if len(accounts) < 2 or not at_most.any():
        return list(accounts)
    idle = [_surely_idle(one, mine) for one, mine in zip(signals, accounts, strict=True)]
    surely = np.minimum(at_most, idle).tolist()
    late = [least > np.delete(at_most, rank).max() for rank, least in enumerate(surely)]
    found = []
    for one, least, most, is_late in zip(accounts, surely, at_most, late, strict=True):
        kept = 1.0 if not most > 0 else least / most if is_late else float(any(late))
        waited = one.parts.get(OF_ROUND, np.zeros_like(one.duration))
        unsure = {UNSURE: (1 - kept) * waited} if kept < 1 else {}
        found.append(one._replace(parts={**one.parts, OF_ROUND: kept * waited, **unsure}))
    return found


def _surely_idle(signals: RankSignals, one: Account) -> float:
    """Seconds a step in which nothing of a worker ran or lacked a CPU, if each of its threads lacked one as
    the busiest did, in proportion, and all after another."""
    run = mean_of(signals.busiest_run)
    every = mean_of(signals.threads_run) * (1 + mean_of(signals.busiest_delay) / run) if run > 0 else 0.0
    return max(0.0, float(one.duration.mean()) - one.mean("transfer") - one.mean("wait_ranks") - every)


def _means(accounts: Sequence[Account], *parts: str) -> Floats:
    """Seconds a step of each rank in these parts; (ranks,)."""
    return np.array([sum(map(one.mean, parts)) for one in accounts])


def _proportions(means: Floats) -> Floats:
    """Of each over the median of the others'; infinite where these have none, 1 where it has none."""
    usual = median_of_others(means)
    found: Floats = np.where(means > 0, np.inf, 1.0)
    np.divide(means, usual, out=found, where=usual > 0)
    return found


def _shares_beyond(means: Floats, least: Floats) -> list[float]:
    """Of each rank the share of a time that it has beyond the median of the others; 0 where it has not at
    least so much more."""
    usual = median_of_others(means)
    enough = (usual > 0) & (means > (1 + least) * usual)
    beyond: list[float] = (1 - np.divide(usual, means, out=np.ones_like(means), where=enough)).tolist()
    return beyond


def _spread_delay(one: RankSignals) -> Floats | None:
    """Waits for a CPU in the phase input, of all steps."""
    if one.input is None or one.input_delay is None or one.waits_for_servers:
        return None
    return np.nan_to_num(spread_by(one.input, one.input_delay))


def _divided(signals: RankSignals, one: Account, for_input: float, for_cpu: float) -> Account:
    waited = one.parts.get("contention")
    if waited is None or not (for_input > 0 or for_cpu > 0):
        return one
    parts = dict(one.parts)
    if for_input > 0 and (input_delay := _spread_delay(signals)) is not None:
        parts[FOR_INPUT] = np.minimum(waited, for_input * input_delay)
        waited = waited - parts[FOR_INPUT]
    return one._replace(parts={**parts, "contention": (1 - for_cpu) * waited, NEEDED: for_cpu * waited})
