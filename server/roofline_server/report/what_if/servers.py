"""What the model of jobs with parameter servers takes: how long a step uses each server and its link."""

from __future__ import annotations

from collections.abc import Collection
from math import sqrt

import numpy as np

from ...model import what_if as model
from ...model.evidence import NS, RankEvidence
from ...model.intervals import interval
from ...model.times import durations
from ...model.what_if import Asynchronous, JobChange, Range
from ...sentences import what_if as texts
from ...store.view import JobView
from ..ceilings.network import of_network
from ..ceilings.nodes import ceilings, cpus_of, hosts
from ..evidence.gathering import Gathered
from ..verdict.accounts import accounts_of
from ..verdict.foreign import foreign_cpus
from ..verdict.servers import Served
from .prediction import Prediction, unknown
from .weights import share_of_weights

UNSURE = 0.1  # relative half-width of a rate's interval, where steps are too few to measure it
MOST_UNSURE = 0.5


def with_servers(
    view: JobView, gathered: Gathered, serving: Served, change: JobChange, bandwidth: float | None
) -> Prediction:
    """Prediction for a step of a worker. bandwidth: of the links, byte/s."""
    rate, cycle = serving.rate, serving.cycle
    in_use = {n: use.demand.low for n, use in serving.uses.items() if use.demand is not None}
    if cycle is None or len(in_use) < len(serving.uses):
        return unknown(texts.NO_DEMAND)
    if bandwidth is not None or change.bandwidth != 1.0:
        return unknown(texts.SERVER_LINKS)
    servers = {n: gathered.evidence[n] for n in in_use}
    training = [gathered.evidence[n] for n in serving.workers]
    places = {rank.host for rank in training}
    on_links = {n: link_use(view, rank, rate, places) for n, rank in servers.items()}
    step = np.concatenate([durations(rank.steps) for rank in training])
    spread = interval(step)
    shares = [worker.kernels for worker in serving.workers.values() if worker.kernels is not None]
    cpu, cpus, free = _cpus(view, gathered, rate)
    job = Asynchronous(
        workers=len(training),
        rate=rate,
        error=min(MOST_UNSURE, spread.high / spread.mean - 1) if np.isfinite(spread.high) else UNSURE,
        demands=tuple(max(used, on_links[n] or 0.0) for n, used in in_use.items()),
        kernels=cycle * float(np.mean(shares)) if shares else 0.0,
        cpu=cpu,
        cpus=cpus,
        free=free,
        floor=share_of_weights(view, accounts_of(view, gathered).signals, list(serving.workers)),
    )
    low, high = model.asynchronous(job, change)
    then = change.ranks or job.workers
    names = [rank.key for rank in servers.values()]
    basis = [texts.steady_steps(len(step), job.workers), texts.demands(names, list(in_use.values()))]
    linked = {rank.key: used for n, rank in servers.items() if (used := on_links[n]) is not None}
    if linked:
        basis.append(texts.links_in_use(list(linked), list(linked.values())))
    if cpus:
        basis.append(texts.cpu_of_all(cpu, cpus))
    notes = [texts.BOUNDS]
    if not cpus and not linked:
        notes.append(texts.NO_SERVER_LINKS)
    if change.servers is not None and change.servers != len(servers):
        notes.append(texts.ONE_LARGE_VARIABLE)
    if cpus and change.ranks not in (None, job.workers):
        notes.append(texts.SHARED_CPUS)
    if change.batch != 1.0 and not shares:
        notes.append(texts.NO_KERNELS)
    return Prediction(Range(then / sqrt(low * high), then / high, then / low), basis, notes)


def link_use(view: JobView, server: RankEvidence, rate: float, workers: Collection[str]) -> float | None:
    """Seconds for which a worker step has the server's link, in the direction that has more to carry; None:
    not known. rate: steps a second; workers: their hosts."""
    if server.host in workers:
        return None  # what part of its bytes leaves the node is not known
    ways = [way.total / way.seconds for way in (server.sent, server.received) if way and way.seconds > 0]
    fastest = max((c.value for c in of_network(view, server.host, ceilings(view, server.host))), default=0.0)
    if not ways or not fastest > 0:
        return None
    return min(1.0, max(ways) / fastest) / rate


def _cpus(view: JobView, gathered: Gathered, rate: float) -> tuple[float, float | None, float | None]:
    """CPU seconds of all ranks for a worker step; where they share one node, its CPUs and how many of them
    nobody used."""
    counted = [rank.cpu_ns for rank in gathered.evidence.values() if rank.cpu_ns is not None]
    cpu = sum(one.total / NS / one.seconds for one in counted if one.seconds) / rate
    there = hosts(view)
    if len(there) != 1:
        return cpu, None, None
    cpus = float(cpus_of(view, there[0]))
    foreign = foreign_cpus(view, gathered).get(there[0])
    return cpu, cpus, max(0.0, cpus - foreign - cpu * rate) if foreign is not None else None
