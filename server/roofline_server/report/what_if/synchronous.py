"""What the model of synchronous jobs takes: the accounts of a job, and what `bench net` measured."""

from __future__ import annotations

import numpy as np

from ...model import what_if as model
from ...model.account import Account
from ...model.breakdown import phase
from ...model.intervals import LEAST_STEPS, interval
from ...model.replay import job_of
from ...model.what_if import JobChange, LinkCost, Range, Synchronous
from ...records import Floats
from ...sentences import what_if as texts
from ...store.view import JobView
from ..ceilings.network import of_network
from ..ceilings.nodes import ceilings, cpus_of, hosts
from ..evidence.gathering import Gathered
from ..verdict.build import Accounts, accounts_of

MOST_OF_WEIGHTS = 0.5  # of the time of kernels: they compute, too


def synchronous(
    view: JobView, gathered: Gathered, change: JobChange, bandwidth: float | None
) -> tuple[Range | None, list[str], list[str]]:
    """(seconds a step, what it stands on, what to know). bandwidth: of the links, byte/s."""
    known = accounts_of(view, gathered)
    job, steps = _job(view, gathered, known)
    if job is None:
        return None, [], [texts.NO_STEPS]
    ranks = job.own.shape[1]
    exposed = max(0.0, job.step - float(job.own.max(axis=1).mean()))
    if bandwidth is not None:
        if job.link is None:
            return None, [], [texts.NO_BANDWIDTH]
        change = change._replace(bandwidth=bandwidth / job.link.bandwidth)
    basis = [texts.steady_steps(steps, ranks)]
    if ranks > 1:
        basis.append(texts.exposed_transfer(exposed, job.payload))
    if job.link is not None:
        basis.append(texts.link(*job.link))
    if job.kernels is not None:
        basis.append(texts.kernels(job.kernels))
    if job.cpu is not None and job.cpus:
        basis.append(texts.cpu_of_rank(job.cpu, job.cpus))
    return model.synchronous(job, change), basis, _notes(job, change)


def _notes(job: Synchronous, change: JobChange) -> list[str]:
    notes = []
    other_ranks = change.ranks not in (None, job.own.shape[1])
    if other_ranks:
        notes.append(texts.SHARED_CPUS if job.nodes == 1 else texts.NODES_ALIKE)
        if job.own.shape[1] == 1:
            notes.append(texts.ALONE)
    if job.link is None and (other_ranks or change.bandwidth != 1.0):
        notes.append(texts.NO_LINK)
    if change.bandwidth != 1.0 and job.nodes == 1:
        notes.append(texts.ONE_NODE)
    if change.batch != 1.0 and job.kernels is None:
        notes.append(texts.NO_KERNELS)
    return notes


def _job(view: JobView, gathered: Gathered, known: Accounts) -> tuple[Synchronous | None, int]:
    numbers = [n for n in (gathered.barriers.ranks or list(known.accounts)) if n in known.accounts]
    signals = [known.signals[n] for n in numbers]
    accounts = [known.accounts[n] for n in numbers]
    if not numbers:
        return None, 0
    if len(numbers) == 1:
        own, played = accounts[0].duration[:, None], accounts[0].duration
    else:
        found = job_of(signals, accounts, gathered.barriers.grid)
        if found is None:
            return None, 0
        own, played = found.own, found.played()
    if len(own) < LEAST_STEPS:
        return None, 0
    ranks = [gathered.evidence[n] for n in numbers]
    there = hosts(view)
    spread = interval(played)
    payload = _payload(view, numbers)
    weights, moved = payload or 0.0, _mean([one.bytes for one in signals])
    return (
        Synchronous(
            own=own,
            step=float(played.mean()),
            error=spread.high - spread.mean if np.isfinite(spread.high) else 0.1 * spread.mean,
            kernels=_part(accounts, "compute"),
            fixed=_mean([phase(rank, "optimizer") for rank in ranks]) or 0.0,
            # The weights are read forward, backward, and written as gradients.
            floor=min(MOST_OF_WEIGHTS, 3 * weights / moved) if moved else 0.0,
            cpu=_mean([one.threads_run for one in signals]),
            cpus=float(cpus_of(view, there[0])) if there else None,
            ranks_per_node=len(numbers) / max(1, len(there)),
            nodes=len(there),
            payload=payload,
            link=_benched(view),
        ),
        len(own),
    )


def _part(accounts: list[Account], name: str) -> float | None:
    return _mean([one.parts.get(name) for one in accounts])


def _mean(columns: list[Floats | None]) -> float | None:
    means = [float(np.nanmean(c)) for c in columns if c is not None and not np.isnan(c).all()]
    return float(np.mean(means)) if means else None


def _payload(view: JobView, numbers: list[int]) -> float | None:
    """Bytes that a step reduces, as the hooks reported them."""
    sizes = [view.facts.get(n, {}).get("gradient.bytes", "") for n in numbers]
    known = [float(size) for size in sizes if size.isdigit()]
    return max(known, default=None)


def _benched(view: JobView) -> LinkCost | None:
    """By `bench net`, between nodes of the job, else on its one node."""
    for host in hosts(view):
        every = ceilings(view, host)
        near = of_network(view, host, every)
        peers = {c.peer for c in near}
        fastest = max((c.value for c in near), default=0.0)
        latency = min((c.value for c in every if c.kind == "latency" and c.peer in peers), default=0.0)
        if fastest > 0 and latency > 0:
            return LinkCost(latency / 2, fastest)  # it is measured there and back
    return None
