"""What parameter servers and workers did: how much of the time servers were in use, and workers waited."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from ..queueing import Bounds

UNEVEN = 1.5  # times its fair part of the bytes
SURE = 2.33  # standard errors: 1 in 100, one-sided


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


def idle_shares(workers: Sequence[WorkerSignals]) -> list[Bounds]:
    """`idle` of the workers of which it is known."""
    return [found for found in map(idle, workers) if found is not None]


def most_idle(workers: Sequence[WorkerSignals], cycle: float) -> float:
    """Seconds of their cycle that workers at most wait; all of it where that is not known."""
    idles = idle_shares(workers)
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
    idles = idle_shares(workers)
    seen = []
    if idles:
        seen.append(sum(i.low for i in idles) / len(idles))
    if server.unread is not None and server.unread_readings:
        seen.append(surely(server.unread, server.unread_readings))
    if not seen:
        return None
    return min(max(seen), sum(i.high for i in idles) / len(idles) if idles else 1.0)


def surely(share: float, readings: int) -> float:
    """The least share that explains so many readings (Wilson, 1927)."""
    if readings < 1:
        return 0.0
    square = SURE**2
    middle = share + square / (2 * readings)
    error = SURE * sqrt(share * (1 - share) / readings + square / (4 * readings**2))
    return max(0.0, (middle - error) / (1 + square / readings))


def skewed(use: ServerUse, servers: int) -> bool:
    """Whether a server gets far more than its part of the bytes; by itself no cause of anything."""
    return servers > 1 and use.share is not None and use.share * servers > UNEVEN


def usual_lack(workers: Sequence[WorkerSignals]) -> float:
    """Mean share of the time in which workers want to run that they lack a CPU; 0 where it is not known."""
    known = [found for found in map(_lack, workers) if found is not None]
    return sum(known) / len(known) if known else 0.0
