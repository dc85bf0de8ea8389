"""Which parameter servers hold the workers up, and what that costs, by the bounds of `queueing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..queueing import Bounds, cycle_then
from .busy_node import BusyNode
from .server_use import (
    ServerSignals,
    ServerUse,
    WorkerSignals,
    idle_shares,
    most_idle,
    skewed,
    surely,
    use_of,
    usual_lack,
)

BUSY = 0.4  # share of the time that a server must be in use to be named, where workers wait for it
BUSY_SLOW = 0.2  # the same of one that lacks CPUs far more than the workers
WAITING = 0.1  # share of their cycle that the workers must wait for it
STOPPED = 0.02  # share of the time that a server must surely be stopped to be named
THROTTLED = 0.1  # share of the time that its CPU limit must hold a server back to be named
LEAST_COST = 0.02  # of the workers' cycle, that this must cost
HELD_BACK = 0.5  # of a slow server's time in use that it lacked a CPU
STRETCHED = 2.0  # times as much as the workers, by which it takes longer for it
BEYOND_NEED = (
    1.15  # times the CPU time of a server that holds at least as much: caches make less of a difference
)


class ServerCause(NamedTuple):
    """A server that holds the workers up. cost: seconds of a worker's step that fixing it would save, with
    its bounds."""

    kind: str  # server_overloaded, server_skewed, server_slow, server_work, throttled, stopped
    rank: str
    host: str
    cost: float
    bounds: Bounds
    use: ServerUse
    beside: str = ""  # the server that holds as much and needs less CPU time, where that tells
    others: tuple[str, ...] = ()  # servers that hold the workers up as well: nothing is gained by one alone

    @property
    def ranks(self) -> tuple[str, ...]:
        return (self.rank, *self.others)


class ServedJob(NamedTuple):
    """All servers and workers of a job. cycle: seconds from step to step of a worker; node: its only one, if
    the CPUs are in use most of the time."""

    servers: Sequence[ServerSignals]
    uses: Sequence[ServerUse]  # of the servers
    workers: Sequence[WorkerSignals]
    cycle: float
    node: BusyNode | None


def server_causes(
    servers: Sequence[ServerSignals], workers: Sequence[WorkerSignals], node: BusyNode | None = None
) -> list[ServerCause]:
    """The servers that hold the workers up, the most expensive first.

    A server is named if it was stopped or throttled, which is counted, or if it is busy *and* the workers
    wait. Neither sign is enough alone: busy servers may keep up, and workers may wait for something else.
    Where all live on one node whose CPUs are in use most of the time, CPU time beyond what its variables need
    is enough.
    """
    rate = sum(worker.steps_per_second for worker in workers)
    if not rate > 0:
        return []
    uses = [use_of(server, servers, workers) for server in servers]
    job = ServedJob(servers, uses, workers, len(workers) / rate, node)
    found = []
    for server, use in zip(servers, uses, strict=True):
        cause = (
            _stopped(server, use, job)
            or _throttled(server, use, job)
            or _beyond_need(server, use, job)
            or _lacking(use, job)
            or _skewed(use, job)
        )
        if cause is not None:
            found.append(cause)
    named = {cause.rank for cause in found}
    busy_ones = [use for use in uses if use.rank not in named and _holds_up(use, BUSY)]
    found += _overloaded(busy_ones, job)
    return sorted(found, key=lambda cause: -cause.cost)


def _stopped(server: ServerSignals, use: ServerUse, job: ServedJob) -> ServerCause | None:
    """While it is stopped no worker finishes a step. In short stops workers may go on computing, so at least
    the part of these that is no kernel is lost."""
    if server.stopped is None or surely(server.stopped, server.stop_readings) < STOPPED:
        return None
    cost = server.stopped * job.cycle
    kernels = max((worker.kernels or 0.0 for worker in job.workers), default=0.0)
    return ServerCause("stopped", server.rank, server.host, cost, Bounds(cost * (1 - kernels), cost), use)


def _throttled(server: ServerSignals, use: ServerUse, job: ServedJob) -> ServerCause | None:
    if use.demand is None or (server.throttled or 0.0) < THROTTLED:
        return None
    lack = max(use.held_back or 0.0, min(1.0, server.throttled or 0.0))
    found = _slow("throttled", use, use.demand, lack, job)
    return found if found.cost >= LEAST_COST * job.cycle else None


def _lacking(use: ServerUse, job: ServedJob) -> ServerCause | None:
    lack = use.held_back or 0.0
    if use.demand is None or not _holds_up(use, BUSY_SLOW) or not _lacks_more(lack, job.workers):
        return None
    return _slow("server_slow", use, use.demand, lack, job)


def _slow(kind: str, use: ServerUse, demand: Bounds, lack: float, job: ServedJob) -> ServerCause:
    """It would lack CPUs as the workers do. All its threads lack them at once, so that its time in use is
    nearer to their sum; what the workers wait lies between what they surely and what they at most do."""
    workers, cycle = job.workers, job.cycle
    saves = max(0.0, 1 - (1 - lack) / max(1e-3, 1 - usual_lack(workers)))
    idles = idle_shares(workers)
    least, most = (min(len(workers) * each * saves, most_idle(workers, cycle)) for each in demand)
    waited = cycle * sum(i.low + i.high for i in idles) / (2 * len(idles)) if idles else cycle
    bounds = Bounds(min(demand.low * saves, least), most)
    return ServerCause(kind, use.rank, use.host, max(least, min(most, waited * saves)), bounds, use)


def _holds_up(use: ServerUse, busy_from: float) -> bool:
    """Whether it is in use for so much of the time at least, and the workers wait."""
    waited = use.waiting is not None and use.waiting >= WAITING
    return waited and use.busy is not None and use.demand is not None and use.busy.low >= busy_from


def _lacks_more(lack: float, workers: Sequence[WorkerSignals]) -> bool:
    """Whether lack of CPUs stretches a server's work clearly more than the workers'. What all of them lack is
    no trouble of the server: it works in short bursts, each of which may wait, and so lacks most."""
    usual = usual_lack(workers)
    return usual <= HELD_BACK <= lack and (1 - lack) * STRETCHED <= 1 - usual


def _skewed(use: ServerUse, job: ServedJob) -> ServerCause | None:
    """It would have its even part of the bytes."""
    if use.demand is None or not _holds_up(use, BUSY) or not skewed(use, len(job.servers)):
        return None
    even = use.demand.low / (len(job.servers) * (use.share or 1.0))
    return _relieved("server_skewed", [use], even, job)


def _overloaded(busy_ones: Sequence[ServerUse], job: ServedJob) -> list[ServerCause]:
    """One more server would take its part of what the busy ones do."""
    if not busy_ones:
        return []
    most = max(use.demand.low for use in busy_ones if use.demand is not None)
    then = most * len(busy_ones) / (len(busy_ones) + 1)
    found = _relieved("server_overloaded", busy_ones, then, job)
    return [found] if found is not None else []


def _relieved(kind: str, of: Sequence[ServerUse], demand_then: float, job: ServedJob) -> ServerCause | None:
    """The same work with less demand of some servers; the largest demand of all counts. None: another server
    would hold the workers up as much."""
    busiest, *others = sorted(of, key=lambda use: -_least_demand(use))
    demand = _least_demand(busiest)
    then = max(demand_then, *(_least_demand(use) for use in job.uses if use not in of), 0.0)
    if then >= demand:
        return None
    most = job.cycle - cycle_then(job.cycle, len(job.workers), demand, then)
    cost = min(most, most_idle(job.workers, job.cycle))
    host = busiest.host if all(use.host == busiest.host for use in others) else ""
    bounds = Bounds(min(cost, demand - then), most)
    return ServerCause(kind, busiest.rank, host, cost, bounds, busiest, others=tuple(u.rank for u in others))


def _least_demand(use: ServerUse) -> float:
    return use.demand.low if use.demand is not None else 0.0


def _beyond_need(server: ServerSignals, use: ServerUse, job: ServedJob) -> ServerCause | None:
    """What a server does for an update takes time for each variable and for each byte. So it needs no more
    than another that holds no fewer of both, and no less than its share of what that one needs of either. A
    link takes more CPU time than loopback."""
    alike = [
        other
        for other in job.servers
        if other is not server
        and other.has_link == server.has_link
        and other.variables >= server.variables
        and other.bytes >= server.bytes
    ]
    known = [other for other in alike if other.threads_run is not None]
    if job.node is None or server.threads_run is None or not known or not server.variables:
        return None
    beside = min(known, key=lambda other: other.threads_run or 0.0)
    usual = beside.threads_run or 0.0
    part = min(server.variables / beside.variables, server.bytes / max(1, beside.bytes))
    least, most = (max(0.0, server.threads_run - need) / job.node.of_job for need in (usual, part * usual))
    if server.threads_run < BEYOND_NEED * usual or least < LEAST_COST:
        return None
    cost, bounds = (least + most) / 2 * job.cycle, Bounds(least * job.cycle, most * job.cycle)
    return ServerCause("server_work", server.rank, server.host, cost, bounds, use, beside.rank)
