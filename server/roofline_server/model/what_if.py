"""What a training would do with other ranks, servers, batches or links: predictions with their bounds.

Synchronous jobs: a step is the time until the last rank arrives at the barrier, and the transfer. The last of
other numbers of ranks is an order statistic of the ranks' own times; the transfer follows the ring, 2 (N - 1)
(alpha + S / (N beta)), or the tree, 2 log2 N (alpha + S / beta) (Thakur, Rabenseifner and Gropp, Optimization
of Collective Communication Operations in MPICH, 2005; Patarasuk and Yuan, 2009), scaled to what was measured.
Ranks of one node share its CPUs: what they need beyond these stretches them all. Jobs with parameter servers:
the two bounds of `queueing`, whose stations are the servers and their links.

What cannot be known from one run is not guessed: it widens the range.
"""

from __future__ import annotations

from math import comb, log2
from typing import NamedTuple

import numpy as np

from ..records import Floats, Ints
from .account.synchronous_job import MOST_TIMES
from .queueing import Bounds, predicted_rates

SHIFTS = 24


class Range(NamedTuple):
    """A prediction and where it lies."""

    likely: float
    low: float
    high: float


class LinkCost(NamedTuple):
    """alpha: seconds until a message arrives; beta: bytes a second."""

    latency: float
    bandwidth: float


class JobChange(NamedTuple):
    """What should be different; None: as it was. batch and bandwidth: times what they were."""

    ranks: int | None = None
    servers: int | None = None
    batch: float = 1.0
    bandwidth: float = 1.0


class Synchronous(NamedTuple):
    """A job whose ranks meet at a barrier in every step. Seconds a step."""

    own: Floats  # (steps, ranks), of each rank until it came to the barrier
    step: float  # mean
    error: float  # half of its interval
    kernels: float | None  # of a rank's own time, in kernels; None: not known
    fixed: float  # of a rank's own time, what does not depend on the batch: the optimizer
    floor: float  # of `kernels`, the share of the bytes that do not depend on the batch: the weights
    cpu: float | None  # CPU seconds that all threads of a rank take
    cpus: float | None  # that the ranks of a node share
    nodes: int
    payload: float | None  # bytes that the collectives of a step reduce
    link: LinkCost | None = None
    lacking: float = 0.0  # of a rank's own time, in which it lacked a CPU


class Asynchronous(NamedTuple):
    """Workers that step on their own, and the servers that they share."""

    workers: int
    rate: float  # steps a second of all workers
    error: float  # half of the interval of the rate, as a share
    demands: tuple[float, ...]  # seconds of each server, or of its link, for a worker step
    kernels: float  # of a worker's step, in kernels
    cpu: float  # CPU seconds of all ranks for a worker step
    cpus: float | None  # that all ranks share on one node; None: they are on several
    free: float | None = None  # of these nobody used; None: not known
    floor: float = 0.0  # of `kernels`, the share of the bytes that do not depend on the batch: the weights


# -- collectives -------------------------------------------------------------------------------------------


def ring(ranks: int, payload: float, link: LinkCost) -> float:
    """Seconds of an allreduce by a ring: 2 (N - 1) (alpha + S / (N beta))."""
    return 2 * (ranks - 1) * (link.latency + payload / (ranks * link.bandwidth))


def tree(ranks: int, payload: float, link: LinkCost) -> float:
    """Seconds of an allreduce by a tree: 2 log2 N (alpha + S / beta)."""
    return 2 * log2(ranks) * (link.latency + payload / link.bandwidth) if ranks > 1 else 0.0


def transfer(measured: float, ranks: int, then: int, payload: float | None, link: LinkCost | None) -> Range:
    """Seconds of transfer among other numbers of ranks, from what was measured. Without a link: from a
    transfer that is all bandwidth to one that is all latency."""
    if then == ranks:
        return Range(measured, measured, measured)
    if ranks < 2 or then < 2:
        return Range(0.0, 0.0, measured)
    by_bandwidth = ((then - 1) / then) / ((ranks - 1) / ranks)
    by_latency = (then - 1) / (ranks - 1)
    factors = [by_bandwidth, by_latency]
    likely = float(np.sqrt(by_bandwidth * by_latency))
    if link is not None and payload:
        factors = [model(then, payload, link) / model(ranks, payload, link) for model in (ring, tree)]
        likely = factors[0]
    return Range(measured * likely, measured * min(factors), measured * max(factors))


def uncovered(moved: Range, more: Range, whole: float | None) -> Range:
    """Seconds of transfer that nothing hides, where ranks compute for so many seconds more (below 0: less),
    which hide none, half (likely) or all as much of it. whole: seconds if nothing hides it; None: not known.
    """
    if more.likely >= 0:
        return Range(max(0.0, moved.likely - more.likely / 2), max(0.0, moved.low - more.low), moved.high)
    if whole is None:
        return moved._replace(high=moved.high - more.high)
    hidden = max(0.0, whole - moved.likely)
    likely = moved.likely + min(-more.likely, hidden) / 2
    return Range(likely, moved.low, moved.high + min(-more.high, hidden))


def faster_link(
    measured: float, times: float, ranks: int, payload: float | None, link: LinkCost | None
) -> Range:
    """Seconds of transfer over a link of so many times the bandwidth."""
    ends = sorted((measured, measured / times))
    if link is None or not payload or ranks < 2:
        return Range(ends[0] if times > 1 else ends[1], *ends)
    then = measured * ring(ranks, payload, link._replace(bandwidth=link.bandwidth * times))
    return Range(then / ring(ranks, payload, link), *ends)


# -- the last to arrive -------------------------------------------------------------------------------------


def last_of(own: Floats, ranks: int) -> Range:
    """Mean time until the last of so many ranks has come, from those there are. own: (steps, ranks).

    Of fewer: the mean over all ways to choose them. Of more: others like these, which are late in other steps
    (likely, high) or in the same (low).
    """
    there = own.shape[1]
    longest = float(own.max(axis=1).mean())
    if ranks == there:
        return Range(longest, longest, longest)
    if ranks < there:
        ordered = -np.sort(-own, axis=1)
        # The k-th latest is the last of those chosen, if the others are chosen from the earlier ones.
        chances = np.array([comb(there - k, ranks - 1) / comb(there, ranks) for k in range(1, there + 1)])
        mean = float((ordered * chances).sum(axis=1).mean())
        return Range(mean, min(mean, float(own.mean())), longest)
    random = np.random.default_rng(0)
    played = np.arange(0, len(own), -(-len(own) * ranks // MOST_TIMES))
    more = np.mean(
        [_drawn(own, played, ranks, random) - _drawn(own, played, there, random) for _ in range(SHIFTS)]
    )
    likely = longest + max(0.0, float(more))
    return Range(likely, longest, longest + 2 * (likely - longest))


def _drawn(own: Floats, played: Ints, ranks: int, random: np.random.Generator) -> float:
    """Mean maximum of so many ranks, each like one of those there are, in steps of its own. played: steps."""
    steps, there = own.shape
    columns = np.concatenate([np.arange(there), random.integers(0, there, max(0, ranks - there))])[:ranks]
    at = (played[:, None] + random.integers(0, steps, ranks)[None, :]) % steps
    latest = own[at, columns[None, :]].max(axis=1)
    return float(latest.mean())


def stretch(job: Synchronous, ranks: int) -> Range:
    """How much longer ranks take when so many share the CPUs of the node.

    Each wants at least the CPU time of its step spread over the step, and at most a whole CPU, or what it
    used of its own time, while it computes: ranks compute at the same time and wait at the same time.
    """
    if job.cpu is None or not job.cpus or job.nodes > 1:
        return Range(1.0, 1.0, 1.0)
    own, now = float(job.own.mean()), int(job.own.shape[1])
    least = job.cpu / job.step if job.step > 0 else 0.0
    most = max(1.0, job.cpu / own if own > 0 else 0.0)
    ends = [max(1.0, ranks * each / job.cpus) / max(1.0, now * each / job.cpus) for each in (least, most)]
    return Range(float(np.sqrt(ends[0] * ends[1])), min(ends), max(ends))


# -- synchronous jobs --------------------------------------------------------------------------------------


def synchronous(job: Synchronous, change: JobChange) -> Range:
    """Mean step, seconds."""
    now = job.own.shape[1]
    then = change.ranks or now
    exposed = max(0.0, job.step - float(job.own.max(axis=1).mean()))
    own, more, crowd = last_of(job.own, then), more_work(job, change.batch), stretch(job, then)
    moved = transfer(exposed, now, then, job.payload, job.link)
    whole = ring(then, job.payload, job.link) if job.link is not None and job.payload else None
    if now == 1 < then and whole is not None:
        moved = Range(whole / 2, 0.0, whole)  # from all of it hidden to nothing
    if then == 1 < now:
        # What communicates takes CPUs from it; a lone rank does not communicate.
        own = own._replace(low=max(0.0, own.low - job.lacking))
    if change.batch != 1.0 and then > 1:
        moved = uncovered(moved, more, whole)
    if change.bandwidth != 1.0:
        share = faster_link(1.0, change.bandwidth, then, job.payload, job.link)
        moved = Range(*(a * b for a, b in zip(moved, share, strict=True)))
    # On one node the transfer, too, is work for its CPUs.
    likely, low, high = (c * (a + b + x) for a, b, c, x in zip(own, more, crowd, moved, strict=True))
    if job.cpu is not None and job.cpus and job.nodes == 1:
        # No schedule of the CPUs is faster. Kernels may run on several, so CPU time grows as the step does.
        mean = float(job.own.mean())
        grown = max(0.0, 1 + more.low / mean) if mean > 0 else 1.0
        least = then * job.cpu * grown / job.cpus
        likely, low = max(likely, least), max(low, least)
    low, high = min(low, likely) - job.error, max(likely, high) + job.error
    return Range(likely, max(low, 0.1 * likely), high)


def more_work(job: Synchronous, batch: float) -> Range:
    """Seconds that another batch adds to a rank's own time (takes from it, where it is smaller).

    Kernels take `batch` times as long where they compute, less where they move weights; what is neither
    kernel nor optimizer may take as long as before or as much longer.
    """
    own = float(job.own.mean())
    grows = batch - 1.0
    rest = max(0.0, own - job.fixed)
    kernels = min(job.kernels, rest) if job.kernels is not None else 0.0
    ends = sorted((grows * kernels * (1 - job.floor), grows * rest))
    # Between the kernels alone and all of it by proportion: a large change leaves little of a step.
    likely = float(np.sqrt((own + grows * kernels) * (own + grows * rest))) - own
    return Range(likely, *ends)


# -- parameter servers -------------------------------------------------------------------------------------


def asynchronous(job: Asynchronous, change: JobChange) -> Bounds:
    """Steps a second of all workers."""
    workers = change.ranks or job.workers
    demand = max(job.demands, default=0.0)
    demands = _with_servers(job, change.servers or len(job.demands))
    node = job.cpu / job.cpus if job.cpus else 0.0
    ends = []
    for then in demands:
        found = predicted_rates(job.workers, job.rate, demand, workers, then, node)
        ends += list(found)
    if change.batch != 1.0:
        ends = [end for rate in ends for end in _with_batch(job, rate, workers, change.batch, demands)]
    if job.cpus and workers > job.workers:
        # More workers may get no more than the CPUs that nobody used so far.
        used = job.cpu * job.rate
        room = 1.0 + (job.free or 0.0) / used if used > 0 else 1.0
        ends.append(min(min(ends), job.rate * min(workers / job.workers, room)))
    return Bounds(min(ends) * (1 - job.error), max(ends) * (1 + job.error))


def _with_servers(job: Asynchronous, servers: int) -> Bounds:
    """Demand of the busiest of so many servers: from all work shared out evenly to the busiest keeping its
    variables, as one large variable does."""
    there = len(job.demands)
    largest, total = max(job.demands, default=0.0), sum(job.demands)
    if servers == there or not there:
        return Bounds(largest, largest)
    even = total / servers
    return Bounds(min(even, largest), largest) if servers > there else Bounds(even, total)


def _with_batch(job: Asynchronous, rate: float, workers: int, batch: float, demands: Bounds) -> Bounds:
    """The rate with another batch. Kernels take so many times as long (less, where they move weights); what
    else a step takes outside its servers grows like them or stays. Of the difference none or all goes into
    queueing for the busiest server, up to what all workers at once wait for it. On one node the CPUs cap the
    rate."""
    cycle = workers / rate
    kernels = min(job.kernels, cycle)
    rest = max(0.0, cycle - kernels - demands.low)
    grows = batch - 1.0
    queued = min((workers - 1) * demands.high, cycle)
    ends = []
    for grown in (grows * kernels * (1 - job.floor), grows * (kernels + rest)):
        absorbed = max(grown - queued, 0.0) if grown > 0 else min(grown + queued, 0.0)
        ends += [cycle + grown, cycle + absorbed]
    fastest = min(cycle, workers * demands.low)  # where a server is in use all the time
    if job.cpus:
        needed = job.cpu + grows * (kernels * (1 - job.floor) if grows > 0 else job.cpu)
        fastest = max(fastest, workers * needed / job.cpus)
    most, least = (max(end, fastest, 1e-9) for end in (min(ends), max(ends)))
    return Bounds(workers / least, workers / most)
