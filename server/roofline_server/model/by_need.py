"""Accounts with contention divided into what a rank brings on itself and what happens to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..records import Floats
from .account import Account
from .cause import seconds_of
from .columns import spread_by
from .kinds import CPU_TIME, FOR_INPUT, MORE_WORK, NEEDED, work_of_each
from .replay import median_of_others
from .signals import RankSignals

MORE_CPU_TIME = 0.15  # than others for the same work: less may be a consequence of few CPUs (cold caches)
MORE_INPUT = 0.15


def by_need(signals: Sequence[RankSignals], accounts: Sequence[Account]) -> list[Account]:
    """Accounts with contention divided: where CPUs are few, a rank that needs more CPU time than the others
    waits longer for it too, in proportion. That much is NEEDED, a consequence of its CPU time; the same of
    waits in its input, where it has more of that."""
    if any(one.on_gpu for one in signals):
        return list(accounts)
    more_work = work_of_each(signals) > 1 + MORE_WORK
    input_delays = [_spread_delay(one) for one in signals]
    with_input = _shares_beyond(
        [seconds_of(one, ["input"]) for one in accounts], np.full(len(accounts), MORE_INPUT)
    )
    with_cpu = _shares_beyond(
        [seconds_of(one, CPU_TIME) for one in accounts], np.where(more_work, MORE_WORK, MORE_CPU_TIME)
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
