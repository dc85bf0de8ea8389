"""A busy node on which a whole job runs: what uses its CPUs beyond need costs the job that share of its time,
no matter who waits for them; but no more than the time in which its ranks lack CPUs or wait for each other or
for servers: a rank that sleeps is not held up.

A station that is always in use does work at one over its demand (the utilization law: Denning and Buzen, "The
Operational Analysis of Queueing Network Models", ACM Computing Surveys 10(3), 1978). The CPUs of the node are
a station, and all its programs are its customers. A job that needs D seconds of CPU time for a step and has C
CPUs takes D / C for it, and where others have f of them, D / (C - f). So what others take costs f / C of each
step, and CPU time that a rank needs beyond what it should costs its share of D. The times of a single rank do
not show this, because chief, workers and servers all wait for the CPUs. What others take is told apart only
where the CPUs are always in use; what a worker or a server needs beyond its like is lost on a node that is
nearly full, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...records import Floats
from ..account.account import Account
from ..account.replay import median_of_others
from ..account.signals import RankSignals
from ..columns import mean_of, spread_by
from ..intervals import Interval, around, error_beyond_others, mean_and_error
from .by_need import BY_CACHES, MORE_CPU_TIME
from .cause import EVERYWHERE, LEAST_GAIN, Cause, chance_of, lasts, seconds_of
from .kinds import LEAST_FOREIGN, MORE_WORK, OF_CONTENTION, kind_of, work_of

BUSY, FULL = 0.7, 0.9  # of the time that its CPUs are in use
WAITS = {"wait_ranks", "wait_ps", "transfer"}  # for others, who may lack CPUs
LEAST_TAKEN = 0.05  # of a step: what others take less of the CPUs that all ranks lack is not said
EMPTIES_CACHES = 0.1  # of the CPUs that others must have to make ranks need clearly more CPU time
MORE_ALONE = 0.08  # CPU time than the others for the same work, where nobody empties caches


class BusyNode(NamedTuple):
    """The only node of a job, whose CPUs are in use for BUSY of the time or more. busy: CPUs that are in use;
    foreign: CPUs that programs which are not the job's keep busy."""

    host: str
    cpus: float
    busy: float
    foreign: float

    @property
    def is_full(self) -> bool:
        return self.busy >= FULL * self.cpus

    @property
    def of_job(self) -> float:
        """CPUs that its ranks have together."""
        return max(self.cpus - self.foreign, 1e-3)


def with_its_causes(
    causes: Sequence[Cause],
    signals: Sequence[RankSignals],
    accounts: Sequence[Account],
    step: float,
    node: BusyNode,
    lost: Sequence[float],
) -> list[Cause]:
    """Causes that were found by the times of ranks, and what the node shows in addition to them. step: mean,
    s. lost: seconds of it in which each rank, or whom it waits for, may have lacked a CPU."""
    beyond = _of_workers(signals, accounts, step, node)
    caused = sum(one.gain.mean for one in beyond)
    # Who waits for servers does so at his own pace; else no step is shorter than what one rank needs for it.
    together = not all(one.waits_for_servers for one in signals)
    taken = min(_taken(node) * step, min(lost) if together else sum(lost) / len(lost))
    found = [part for one in causes for part in _by_whom(one, step, taken, caused)]
    if node.is_full and not any(one.part == "contention" and not one.ranks for one in causes):
        found += _of_others(accounts, step, node.host, taken)
    for one in beyond:
        same = next((cause for cause in found if (cause.part, cause.ranks) == (one.part, one.ranks)), None)
        if same is None:
            found.append(one)
        elif one.gain.mean > same.gain.mean:
            found[found.index(same)] = one
    return found


def _by_whom(cause: Cause, step: float, taken: float, caused: float) -> list[Cause]:
    """What all ranks lack of CPUs, divided into what others take of them and what the job itself lacks.
    taken, caused: seconds a step, by others and by ranks that need more than their like; no time is lost
    twice."""
    if cause.part != "contention" or cause.ranks:
        return [cause]
    if taken < LEAST_TAKEN * step:
        taken = 0.0
    found = [_scaled(cause, taken)._replace(kind="contention")] if taken else []
    left = cause.gain.mean - taken - caused
    if left > EVERYWHERE["contention"] * step:
        found.append(_scaled(cause, left)._replace(kind="contention_own" if taken else cause.kind))
    return found


def _taken(node: BusyNode) -> float:
    """The share of the CPUs that others have, where nothing is left."""
    return node.foreign / node.cpus if node.is_full and node.foreign >= LEAST_FOREIGN else 0.0


def lost_of(accounts: Sequence[Account]) -> list[float]:
    """Seconds of a step in which each rank, or whom it waits for, may have lacked a CPU."""
    return [sum(float(s.mean()) for part, s in one.parts.items() if _may_lack(part)) for one in accounts]


def _may_lack(part: str) -> bool:
    return part in OF_CONTENTION or not WAITS.isdisjoint(part.split("|"))


def _of_others(accounts: Sequence[Account], step: float, host: str, taken: float) -> list[Cause]:
    """What others take of the CPUs is counted, so it is a cause even where the ranks' waits for one vary too
    much to say what fixing them would give. Others that give way to the job make none of it wait."""
    lacking = min(float(seconds_of(one, OF_CONTENTION).mean()) for one in accounts)
    if min(taken, lacking) < EVERYWHERE["contention"] * step:
        return []
    gain = Interval(*[taken] * 4)
    return [Cause("contention", "contention", (), host, gain, step, {"contention": lacking})]


def _scaled(cause: Cause, seconds: float) -> Cause:
    """This cause with another gain. What was measured of it shrinks with a smaller gain, and does not grow
    with a larger one."""
    share = seconds / cause.gain.mean
    more = {part: min(1.0, share) * more for part, more in cause.more.items()}
    return cause._replace(gain=Interval(*(share * end for end in cause.gain)), more=more)


def _of_workers(
    signals: Sequence[RankSignals], accounts: Sequence[Account], step: float, node: BusyNode
) -> list[Cause]:
    """Workers that need clearly more CPU time for a step than the others. step: mean of the job, s."""
    if not all(one.waits_for_servers for one in signals):
        return []
    columns = [_cpu_time(one) for one in signals]
    if len(columns) < 2 or any(column is None for column in columns):
        return []
    known = [column for column in columns if column is not None]
    means = np.array([float(column.mean()) for column in known])
    errors = np.array([mean_and_error(column)[1] for column in known])
    more = means - median_of_others(means)
    waits = np.array([mean_of(one.threads_delay) for one in signals])
    usual_waits = median_of_others(waits)
    emptied = node.foreign >= EMPTIES_CACHES * node.cpus
    found = []
    for rank, one in enumerate(signals):
        work = work_of(signals, [rank])
        beyond = float(more[rank] / (means[rank] - more[rank])) if means[rank] > more[rank] else 0.0
        if (work or 1.0) > 1 + MORE_WORK:
            enough = beyond > MORE_WORK
        else:
            # Who waits longer for CPUs finds his caches emptied by others and so needs more CPU time as well.
            longer = (1 + beyond) * usual_waits[rank] < waits[rank]
            by_caches = emptied and beyond <= BY_CACHES and longer
            enough = beyond > (MORE_CPU_TIME if emptied else MORE_ALONE) and not by_caches
        if not enough:
            continue
        error = error_beyond_others(errors, rank)
        share = step / float(accounts[rank].duration.mean()) / node.of_job
        chance = chance_of("cpu", signals, [rank], len(signals))
        gain = around(float(more[rank]) * share, error * share, len(known[rank]), chance)
        if gain.surely <= LEAST_GAIN * step or not lasts(known[rank] - means[rank] + more[rank], step):
            continue
        kernels = _kernels(accounts)
        own = {"host": float(more[rank])}
        if kernels is not None:
            computing = float(np.clip((kernels - median_of_others(kernels))[rank], 0.0, more[rank]))
            own = {"compute": computing, "host": float(more[rank]) - computing}
        kind = kind_of("cpu", own, work, [one], signals, {})
        found.append(Cause(kind, "cpu", (one.rank,), one.host, gain, step, own, work))
    return found


def _cpu_time(one: RankSignals) -> Floats | None:
    """Of all its threads, in each step; None: it is not known of most."""
    if one.threads_run is None or np.isnan(one.threads_run).mean() > 0.5:
        return None
    return spread_by(one.duration, one.threads_run)


def _kernels(accounts: Sequence[Account]) -> Floats | None:
    """Mean time in kernels of each rank, on a CPU; None where it is not known of all."""
    if any("compute" not in one.parts for one in accounts):
        return None
    return np.array([float(one.parts["compute"].mean()) for one in accounts])
