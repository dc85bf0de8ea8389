"""What the model of synchronous jobs takes: the accounts of a job, and what `bench net` measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...model import what_if as model
from ...model.account.account import Account
from ...model.account.synchronous_job import job_of
from ...model.breakdown import phase
from ...model.intervals import LEAST_STEPS, interval
from ...model.roofline.roofs import counts
from ...model.what_if import JobChange, LinkCost, Synchronous
from ...sentences import what_if as texts
from ...store.view import JobView
from ..ceilings.network import of_network
from ..ceilings.nodes import ceilings, cpus_of, hosts
from ..evidence.gathering import Gathered
from ..verdict.accounts import Accounts, accounts_of
from .prediction import Prediction, unknown
from .weights import gradient_bytes, mean, share_of_weights


def synchronous(view: JobView, gathered: Gathered, change: JobChange, bandwidth: float | None) -> Prediction:
    """bandwidth: of the links, byte/s."""
    known = accounts_of(view, gathered)
    job, steps = _job(view, gathered, known)
    if job is None:
        unseen = gathered.barriers.why_not if len(gathered.barriers.ranks) > 1 else ""
        return unknown(unseen or texts.NO_STEPS)
    ranks = job.own.shape[1]
    exposed = max(0.0, job.step - float(job.own.max(axis=1).mean()))
    if bandwidth is not None:
        if job.link is None:
            return unknown(texts.NO_BANDWIDTH)
        change = change._replace(bandwidth=bandwidth / job.link.bandwidth)
    if ranks == 1 < (change.ranks or 1) and (job.link is None or not job.payload):
        return unknown(texts.ALONE_WITHOUT_PAYLOAD if job.link is not None else texts.ALONE_WITHOUT_LINK)
    basis = [texts.steady_steps(steps, ranks)]
    if ranks > 1:
        basis.append(texts.exposed_transfer(exposed, job.payload))
    if job.link is not None:
        basis.append(texts.link(*job.link))
    if job.kernels is not None:
        basis.append(texts.kernels(job.kernels))
    if job.cpu is not None and job.cpus:
        basis.append(texts.cpu_of_rank(job.cpu, job.cpus))
    return Prediction(model.synchronous(job, change), basis, _notes(job, change))


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
        own, played = found.own, found.played
    if len(own) < LEAST_STEPS:
        return None, 0
    ranks = [gathered.evidence[n] for n in numbers]
    there = hosts(view)
    spread = interval(played)
    return (
        Synchronous(
            own=own,
            step=float(played.mean()),
            error=spread.high - spread.mean if np.isfinite(spread.high) else 0.1 * spread.mean,
            kernels=_part(accounts, "compute"),
            fixed=mean(phase(rank, "optimizer") for rank in ranks) or 0.0,
            floor=share_of_weights(view, known.signals, numbers),
            cpu=mean(one.threads_run for one in signals),
            cpus=float(cpus_of(view, there[0])) if there else None,
            nodes=len(there),
            payload=gradient_bytes(view),
            link=_benched(view, own.shape[1]),
            lacking=_part(accounts, "contention") or 0.0,
        ),
        len(own),
    )


def _part(accounts: Sequence[Account], name: str) -> float | None:
    return mean(one.parts.get(name) for one in accounts)


def _benched(view: JobView, ranks: int) -> LinkCost | None:
    """By `bench net`, between nodes of the job, else on its one node; of a lone rank from there to others, as
    others would be on these."""
    for host in hosts(view):
        every = ceilings(view, host)
        near = of_network(view, host, every)
        if ranks == 1:
            near = [c for c in every if c.kind == "network" and c.peer not in ("", host) and counts(c)]
        peers = {c.peer for c in near}
        fastest = max((c.value for c in near), default=0.0)
        latency = min((c.value for c in every if c.kind == "latency" and c.peer in peers), default=0.0)
        if fastest > 0 and latency > 0:
            return LinkCost(latency / 2, fastest)  # it is measured there and back
    return None
