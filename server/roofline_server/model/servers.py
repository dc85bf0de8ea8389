"""Parameter servers as the stations of a closed queueing network: which one holds the workers up, what that
costs, and the rates that its bounds allow.

N workers compute for Z seconds and then need D seconds of a server for each step. Only bounds are computed,
because workers do not arrive independently: at a busy server they fall into step, pull together and compute
together (operational analysis: Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM
Computing Surveys 10(3), 1978; asymptotic bounds: Lazowska, Zahorjan, Graham and Sevcik, "Quantitative System
Performance", 1984, chapter 5). Z is solved from the measured rate, so at the measured point both bounds agree
with it. Pulls from several servers depend on each other, so the largest demand counts, not the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from .busy_node import BusyNode

BUSY = 0.4  # share of the time that a server must be in use to be named, where workers wait for it
BUSY_SLOW = 0.2  # the same of one that lacks CPUs far more than the workers
WAITING = 0.1  # share of their cycle that the workers must wait for it
STOPPED = 0.02  # share of the time that a server must surely be stopped to be named
THROTTLED = 0.1  # share of the time that its CPU limit must hold a server back to be named
LEAST_COST = 0.02  # of the workers' cycle, that this must cost
HELD_BACK = 0.5  # of a slow server's time in use that it lacked a CPU
STRETCHED = 2.0  # times as much as the workers, by which it takes longer for it
UNEVEN = 1.5  # times its fair part of the bytes
BEYOND_NEED = (
    1.15  # times the CPU time of a server that holds at least as much: caches make less of a difference
)
SURE = 2.33  # standard errors: 1 in 100, one-sided


class Bounds(NamedTuple):
    low: float
    high: float


class ServerSignals(NamedTuple):
    """What one server did in the steps that are looked at; seconds a second unless said otherwise, None where
    it is not known."""

    rank: str
    host: str
    run: float | None = None  # its busiest thread was on a CPU
    delay: float | None = None  # this thread was runnable without one
    threads_run: float | None = None  # all threads, summed
    threads_delay: float | None = None
    cpus: float = 1.0  # that it may run on at once
    throttled: float | None = None  # kept off the CPUs by the limit of its cgroup
    stopped: float | None = None  # share of the readings that found it stopped
    stop_readings: int = 0
    unread: float | None = None  # share of the readings in which a worker's data lay unread
    unread_readings: int = 0
    received: float | None = None  # bytes a second from workers
    variables: int = 0  # that it holds, 0: not known; and their bytes
    bytes: int = 0
    has_link: bool = False  # to workers; else they are on its own node and host name: loopback


class WorkerSignals(NamedTuple):
    """What one worker did; seconds a second unless said otherwise, None where it is not known."""

    rank: str
    steps_per_second: float
    kernels: float | None = None  # some kernel ran
    run: float | None = None  # its busiest thread was on a CPU
    delay: float | None = None
    threads_run: float | None = None
    threads_delay: float | None = None


class ServerUse(NamedTuple):
    """How much of the time a server was in use. busy: share of the time that it runs or wants to; of this
    `held_back` without a CPU. demand: seconds a worker step; share: of the bytes that workers send."""

    rank: str
    host: str
    busy: Bounds | None
    demand: Bounds | None
    held_back: float | None
    waiting: float | None  # share of the workers' cycle that they were seen to wait for it; None: not seen
    stopped: float | None
    throttled: float | None
    share: float | None


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


# -- bounds of a closed network ----------------------------------------------------------------------------


def convoy(customers: float, think: float, demand: float) -> float:
    """Steps a second where all customers queue for the station at once: N / (Z + N D), the lower bound. Also
    the rate of synchronous rounds."""
    return customers / (think + customers * demand)


def at_best(customers: float, think: float, demand: float, node: float = 0.0) -> float:
    """Steps a second where nobody queues before a station is saturated: min(N / (Z + D), 1 / D), the upper
    bound. node: seconds of all its CPUs that a step takes on the node that the ranks share."""
    rates = [customers / (think + demand)] if think + demand > 0 else []
    rates += [1 / largest for largest in (max(demand, node),) if largest > 0]
    return min(rates, default=float("inf"))


def think_times(customers: float, rate: float, demand: float) -> Bounds:
    """Z as the two bounds solve it from the measured rate; never below 0."""
    cycle = customers / rate
    return Bounds(max(0.0, cycle - customers * demand), max(0.0, cycle - demand))


def predicted(
    customers: float, rate: float, demand: float, customers_then: float, demand_then: float, node: float = 0.0
) -> Bounds:
    """Steps a second of so many customers at a station of this demand, from the rate that was measured."""
    all_at_once, nobody = think_times(customers, rate, demand)
    ends = (
        min(convoy(customers_then, all_at_once, demand_then), 1 / node if node else float("inf")),
        at_best(customers_then, nobody, demand_then, node),
    )
    return Bounds(min(ends), max(ends))


def mended(cycle: float, customers: float, demand: float, demand_then: float) -> float:
    """Seconds of a worker's step with another demand: T' = T - N (D - D'). It never falls below D'."""
    return max(cycle - customers * (demand - demand_then), demand_then)


# -- what is measured --------------------------------------------------------------------------------------


def busy(server: ServerSignals) -> Bounds | None:
    """Share of the time that a server is in use, or would be if it were not stopped.

    At least what its busiest thread runs or waits for a CPU, and what all threads run divided by the CPUs
    they have; at most the sum over threads, since these work at the same time.
    """
    if server.threads_run is None:
        return None
    runs = 1.0 - min(server.stopped or 0.0, 0.99)
    wanted = server.threads_run + (server.threads_delay or 0.0)
    least = max((server.run or 0.0) + (server.delay or 0.0), server.threads_run / max(1.0, server.cpus))
    return Bounds(min(1.0, least / runs), min(1.0, max(wanted, least) / runs))


def _lack(of: ServerSignals | WorkerSignals) -> float | None:
    """Of the time that it wants to run, the share without a CPU: of its busiest thread, else of all."""
    run, delay = of.run, of.delay
    if run is None or delay is None:
        run, delay = of.threads_run, of.threads_delay
    if run is None or delay is None or not run + delay > 0:
        return None
    return delay / (run + delay)


def idle(worker: WorkerSignals) -> Bounds | None:
    """Share of the time that nothing of a worker ran or wanted to: it waits.

    At least what is left when all its threads work one after the other, each as long without a CPU as the
    busiest (the delays of threads that wake together do not add up); at most what is left of its busiest
    thread and of its kernels.
    """
    if worker.threads_run is None or worker.threads_delay is None:
        return None
    every = worker.threads_run + worker.threads_delay
    alone = 0.0
    if worker.run is not None and worker.delay is not None:
        alone = worker.run + worker.delay
        if worker.run > 0:
            every = min(every, worker.threads_run * alone / worker.run)
    return Bounds(max(0.0, 1.0 - every), max(0.0, 1.0 - max(alone, worker.kernels or 0.0)))


def _idles(workers: Sequence[WorkerSignals]) -> list[Bounds]:
    """Of those of which it is known."""
    return [found for found in map(idle, workers) if found is not None]


def _most_idle(workers: Sequence[WorkerSignals], cycle: float) -> float:
    """Seconds of their cycle that workers at most wait; all of it where that is not known."""
    idles = _idles(workers)
    return cycle * sum(i.high for i in idles) / len(idles) if idles else cycle


def use_of(
    server: ServerSignals, servers: Sequence[ServerSignals], workers: Sequence[WorkerSignals]
) -> ServerUse:
    """servers: all of the job."""
    rate = sum(worker.steps_per_second for worker in workers)
    in_use = busy(server)
    demand = Bounds(in_use.low / rate, in_use.high / rate) if in_use is not None and rate > 0 else None
    total = sum(other.received or 0.0 for other in servers)
    return ServerUse(
        server.rank,
        server.host,
        busy=in_use,
        demand=demand,
        held_back=_lack(server),
        waiting=_waiting(server, workers),
        stopped=server.stopped,
        throttled=server.throttled,
        share=server.received / total if server.received is not None and total > 0 else None,
    )


def _waiting(server: ServerSignals, workers: Sequence[WorkerSignals]) -> float | None:
    """What was seen of the workers' waiting, as a share of the time: their data lay unread at the server, or
    nothing of them ran. It is no more than what their kernels leave."""
    idles = _idles(workers)
    seen = []
    if idles:
        seen.append(sum(i.low for i in idles) / len(idles))
    if server.unread is not None and server.unread_readings:
        seen.append(_surely(server.unread, server.unread_readings))
    if not seen:
        return None
    return min(max(seen), sum(i.high for i in idles) / len(idles) if idles else 1.0)


def _surely(share: float, readings: int) -> float:
    """The least share that explains so many readings (Wilson, 1927)."""
    if readings < 1:
        return 0.0
    square = SURE**2
    middle = share + square / (2 * readings)
    error = SURE * sqrt(share * (1 - share) / readings + square / (4 * readings**2))
    return max(0.0, (middle - error) / (1 + square / readings))


# -- who is named ------------------------------------------------------------------------------------------


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
    cycle = len(workers) / rate
    uses = [use_of(server, servers, workers) for server in servers]
    found = []
    for server, use in zip(servers, uses, strict=True):
        cause = (
            _stopped(server, use, workers, cycle)
            or _throttled(server, use, workers, cycle)
            or _beyond_need(server, use, servers, cycle, node)
            or _lacking(use, workers, cycle)
            or _skewed(use, uses, workers, cycle)
        )
        if cause is not None:
            found.append(cause)
    named = {cause.rank for cause in found}
    busy_ones = [use for use in uses if use.rank not in named and _holds_up(use, BUSY)]
    found += _overloaded(busy_ones, uses, workers, cycle)
    return sorted(found, key=lambda cause: -cause.cost)


def _stopped(
    server: ServerSignals, use: ServerUse, workers: Sequence[WorkerSignals], cycle: float
) -> ServerCause | None:
    """While it is stopped no worker finishes a step. In short stops workers may go on computing, so at least
    the part of these that is no kernel is lost."""
    if server.stopped is None or _surely(server.stopped, server.stop_readings) < STOPPED:
        return None
    cost = server.stopped * cycle
    kernels = max((worker.kernels or 0.0 for worker in workers), default=0.0)
    return ServerCause("stopped", server.rank, server.host, cost, Bounds(cost * (1 - kernels), cost), use)


def _throttled(
    server: ServerSignals, use: ServerUse, workers: Sequence[WorkerSignals], cycle: float
) -> ServerCause | None:
    if use.demand is None or (server.throttled or 0.0) < THROTTLED:
        return None
    lack = max(use.held_back or 0.0, min(1.0, server.throttled or 0.0))
    found = _slow("throttled", use, use.demand, workers, cycle, lack)
    return found if found.cost >= LEAST_COST * cycle else None


def _slow(
    kind: str, use: ServerUse, demand: Bounds, workers: Sequence[WorkerSignals], cycle: float, lack: float
) -> ServerCause:
    """It would lack CPUs as the workers do. All its threads lack them at once, so that its time in use is
    nearer to their sum; what the workers wait lies between what they surely and what they at most do."""
    saves = max(0.0, 1 - (1 - lack) / max(1e-3, 1 - _usual_lack(workers)))
    idles = _idles(workers)
    least, most = (min(len(workers) * each * saves, _most_idle(workers, cycle)) for each in demand)
    waited = cycle * sum(i.low + i.high for i in idles) / (2 * len(idles)) if idles else cycle
    bounds = Bounds(min(demand.low * saves, least), most)
    return ServerCause(kind, use.rank, use.host, max(least, min(most, waited * saves)), bounds, use)


def _holds_up(use: ServerUse, busy_from: float) -> bool:
    """Whether it is in use for so much of the time at least, and the workers wait."""
    waited = use.waiting is not None and use.waiting >= WAITING
    return waited and use.busy is not None and use.demand is not None and use.busy.low >= busy_from


def _lacking(use: ServerUse, workers: Sequence[WorkerSignals], cycle: float) -> ServerCause | None:
    lack = use.held_back or 0.0
    if use.demand is None or not _holds_up(use, BUSY_SLOW) or not _lacks_more(lack, workers):
        return None
    return _slow("server_slow", use, use.demand, workers, cycle, lack)


def _skewed(
    use: ServerUse, uses: Sequence[ServerUse], workers: Sequence[WorkerSignals], cycle: float
) -> ServerCause | None:
    """It would have its even part of the bytes."""
    if use.demand is None or not _holds_up(use, BUSY) or not skewed(use, len(uses)):
        return None
    even = use.demand.low / (len(uses) * (use.share or 1.0))
    return _relieved("server_skewed", [use], uses, even, workers, cycle)


def _overloaded(
    busy_ones: Sequence[ServerUse], uses: Sequence[ServerUse], workers: Sequence[WorkerSignals], cycle: float
) -> list[ServerCause]:
    """One more server would take its part of what the busy ones do."""
    if not busy_ones:
        return []
    most = max(use.demand.low for use in busy_ones if use.demand is not None)
    then = most * len(busy_ones) / (len(busy_ones) + 1)
    found = _relieved("server_overloaded", busy_ones, uses, then, workers, cycle)
    return [found] if found is not None else []


def _relieved(
    kind: str,
    of: Sequence[ServerUse],
    uses: Sequence[ServerUse],
    demand_then: float,
    workers: Sequence[WorkerSignals],
    cycle: float,
) -> ServerCause | None:
    """The same work with less demand of some servers; the largest demand of all counts. None: another server
    would hold the workers up as much."""
    busiest, *others = sorted(of, key=lambda use: -_least_demand(use))
    demand = _least_demand(busiest)
    then = max(demand_then, *(_least_demand(use) for use in uses if use not in of), 0.0)
    if then >= demand:
        return None
    most = cycle - mended(cycle, len(workers), demand, then)
    cost = min(most, _most_idle(workers, cycle))
    host = busiest.host if all(use.host == busiest.host for use in others) else ""
    bounds = Bounds(min(cost, demand - then), most)
    return ServerCause(kind, busiest.rank, host, cost, bounds, busiest, others=tuple(u.rank for u in others))


def _least_demand(use: ServerUse) -> float:
    return use.demand.low if use.demand is not None else 0.0


def _beyond_need(
    server: ServerSignals,
    use: ServerUse,
    servers: Sequence[ServerSignals],
    cycle: float,
    node: BusyNode | None,
) -> ServerCause | None:
    """What a server does for an update takes time for each variable and for each byte. So it needs no more
    than another that holds no fewer of both, and no less than its share of what that one needs of either. A
    link takes more CPU time than loopback."""
    alike = [
        other
        for other in servers
        if other is not server
        and other.has_link == server.has_link
        and other.variables >= server.variables
        and other.bytes >= server.bytes
    ]
    known = [other for other in alike if other.threads_run is not None]
    if node is None or server.threads_run is None or not known or not server.variables:
        return None
    beside = min(known, key=lambda other: other.threads_run or 0.0)
    usual = beside.threads_run or 0.0
    part = min(server.variables / beside.variables, server.bytes / max(1, beside.bytes))
    least, most = (max(0.0, server.threads_run - need) / node.of_job for need in (usual, part * usual))
    if server.threads_run < BEYOND_NEED * usual or least < LEAST_COST:
        return None
    cost, bounds = (least + most) / 2 * cycle, Bounds(least * cycle, most * cycle)
    return ServerCause("server_work", server.rank, server.host, cost, bounds, use, beside.rank)


def _lacks_more(lack: float, workers: Sequence[WorkerSignals]) -> bool:
    """Whether lack of CPUs stretches a server's work clearly more than the workers'. What all of them lack is
    no trouble of the server: it works in short bursts, each of which may wait, and so lacks most."""
    usual = _usual_lack(workers)
    return usual <= HELD_BACK <= lack and (1 - lack) * STRETCHED <= 1 - usual


def _usual_lack(workers: Sequence[WorkerSignals]) -> float:
    """Mean of the workers' own; 0 where it is not known."""
    known = [found for found in map(_lack, workers) if found is not None]
    return sum(known) / len(known) if known else 0.0


def skewed(use: ServerUse, servers: int) -> bool:
    """Whether a server gets far more than its part of the bytes; by itself no cause of anything."""
    return servers > 1 and use.share is not None and use.share * servers > UNEVEN
