"""What parameter servers did for the workers, and how long those waited for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.answers.waits import ServerLoad

from ...correlate.parts import PartTotal
from ...model import breakdown as model
from ...model.causes.server_causes import ServerCause, server_causes
from ...model.causes.server_use import ServerSignals, ServerUse, WorkerSignals, use_of
from ...model.evidence import NS, RankEvidence
from ...model.times import union_seconds
from ...records import Table
from ...sentences import waits as texts
from ...store.view import JobView
from ..evidence.counters import counter
from ..evidence.gathering import Gathered
from ..evidence.ranks import BUSIEST
from ..ranks.members import host_of, in_order, latest_process, name_of
from .foreign import busy_node, node_uses
from .links import has_link

TOTAL = "total"
SIZES = ("small", "medium", "large", TOTAL)
LOOKS_PER_SECOND = 4  # at the state of a process, by the agent
LIMIT = "cgroup_cpu_limit"
COUNTERS = ("cpu_ns", "cpu_wait_ns", *BUSIEST)


class Served(NamedTuple):
    """The parameter servers and the workers of a job by their numbers, and which servers hold them up."""

    servers: dict[int, ServerSignals]
    workers: dict[int, WorkerSignals]
    uses: dict[int, ServerUse]
    causes: list[ServerCause]

    @property
    def rate(self) -> float:
        """Steps a second of all workers."""
        return sum(worker.steps_per_second for worker in self.workers.values())

    @property
    def cycle(self) -> float | None:
        """Seconds from step to step of a worker; None: they did no steps."""
        return len(self.workers) / self.rate if self.rate > 0 else None


def served(view: JobView, gathered: Gathered) -> Served:
    """What is known of the servers in the steps that were gathered."""
    numbers = [number for number in in_order(view, view.ranks) if view.ranks[number].role == "ps"]
    training = [number for number in gathered.barriers.ranks if len(gathered.evidence[number].steps.step) > 1]
    if not numbers:
        return Served({}, {}, {}, [])
    known = {n: _worker(gathered.evidence[n], gathered.tables.get(n, {})) for n in training}
    workers = list(known.values())
    servers = {n: server_signals(view, n, gathered.tables.get(n, {})) for n in numbers}
    every = list(servers.values())
    uses = {number: use_of(server, every, workers) for number, server in servers.items()}
    node = busy_node(view, gathered, node_uses(view, gathered))
    return Served(servers, known, uses, server_causes(every, workers, node))


def server_signals(view: JobView, number: int, mine: Mapping[str, Table]) -> ServerSignals:
    """mine: the server's rows of each step table."""
    process = mine.get("steps_process", {})
    run, wait, busiest, delay = (_per_second(process, name) for name in COUNTERS)
    unread, readings = _unread(view, number)
    stopped, stop_readings = _stopped(process)
    cgroup = mine.get("steps_cgroup", {})
    held = {name: int(one.value or 0) for name, one in _payload(view, name_of(view, number)).items()}
    return ServerSignals(
        name_of(view, number),
        host_of(view, number),
        run=busiest,
        delay=delay,
        threads_run=run,
        threads_delay=wait,
        cpus=_cpus(view, number, cgroup),
        throttled=_per_second(cgroup, "cgroup_throttled_ns"),
        stopped=stopped,
        stop_readings=stop_readings,
        unread=unread,
        unread_readings=readings,
        received=_with_workers(view, number, "tcp_received_bytes"),
        variables=held.get(f"payload.{TOTAL}.variables", 0),
        bytes=held.get(f"payload.{TOTAL}.bytes", 0),
        has_link=has_link(view, number),
    )


def _worker(rank: RankEvidence, mine: Mapping[str, Table]) -> WorkerSignals:
    process = mine.get("steps_process", {})
    run, wait, busiest, delay = (_per_second(process, name) for name in COUNTERS)
    seconds = union_seconds([rank.steps.runs])
    rate = len(rank.steps.step) / seconds if seconds > 0 else 0.0
    kernels = model.seconds(rank, "kernels.kernel_ns")
    share = None
    if kernels is not None and not np.isnan(kernels).all():
        share = min(1.0, float(np.nanmean(kernels)) * rate)
    return WorkerSignals(
        rank=rank.key,
        steps_per_second=rate,
        kernels=share,
        run=busiest,
        delay=delay,
        threads_run=run,
        threads_delay=wait,
    )


def _per_second(process: Table, name: str) -> float | None:
    """How much a counter of nanoseconds grew, seconds a second."""
    counted = counter(process, name)
    return counted.total / NS / counted.seconds if counted is not None and counted.seconds else None


def _unread(view: JobView, number: int) -> tuple[float | None, int]:
    """Of the readings of its connections to workers the share that found data unread, and how many these
    are."""
    found = [
        (part.above, part.samples)
        for part in view.parts
        if (part.rank, part.metric.name) == (number, "tcp_unread_bytes") and _is_worker(part)
        if part.above is not None and part.samples
    ]
    if not found:
        return None, 0
    shares, samples = zip(*found, strict=True)
    return float(np.average(shares, weights=samples)), int(sum(samples))


def _cpus(view: JobView, number: int, cgroup: Table) -> float:
    """CPUs of its node, or its cgroup's limit."""
    who = latest_process(view, number)
    found = float(view.machines[who.node].cpus) if who is not None else 1.0
    limits = cgroup[LIMIT] if LIMIT in cgroup else np.zeros(0)
    return max(1.0, float(np.min([found, *limits[~np.isnan(limits)]])))


def _stopped(process: Table) -> tuple[float | None, int]:
    """Share of the time that it was stopped, and how many looks this is of at least."""
    counted = counter(process, "stopped_ns")
    if counted is None or not counted.seconds > 0:
        return None, 0
    return min(1.0, counted.total / NS / counted.seconds), int(counted.seconds * LOOKS_PER_SECOND)


def evidence_of(cause: ServerCause) -> list[str]:
    """A sentence for each number that the conclusion rests on."""
    use, found = cause.use, []
    if cause.kind == "stopped" and use.stopped is not None:
        found.append(texts.server_stopped(use.stopped))
    if use.busy is not None and use.demand is not None:
        which = cause.rank if cause.others else ""
        found.append(texts.server_in_use(use.busy.low, use.demand.low, which))
    if use.waiting is not None:
        found.append(texts.workers_wait(use.waiting))
    if cause.kind == "throttled" and use.throttled is not None:
        found.append(texts.server_throttled(min(1.0, use.throttled)))
    if cause.kind in ("server_slow", "throttled") and use.held_back is not None:
        found.append(texts.server_held_back(use.held_back))
    if cause.kind == "server_work":
        found.append(texts.more_than_it_needs(cause.bounds.low, cause.beside))
    if cause.kind == "server_skewed" and use.share is not None:
        found.append(texts.uneven_bytes(use.rank, use.share))
    return found


def load_of(view: JobView, number: int, server: ServerSignals, use: ServerUse) -> ServerLoad:
    def measured(found: float | None, unit: str, why: str) -> Value:
        return value(found, unit, Provenance.MEASURED, Scope.PROCESS, missing=why)

    no_tcp = texts.NO_WORKER_CONNECTIONS
    sent = _with_workers(view, number, "tcp_sent_bytes")
    demand = use.demand.low if use.demand is not None else None
    return ServerLoad(
        server.rank,
        server.host,
        {
            "sent_bytes_per_second": measured(sent, "byte/s", no_tcp),
            "received_bytes_per_second": measured(server.received, "byte/s", no_tcp),
            "busy": measured(use.busy.low if use.busy is not None else None, "1", texts.NO_SCHEDULER),
            "demand_per_step": measured(demand, "s", texts.NO_SCHEDULER),
            "waiting": measured(use.waiting, "1", texts.NO_WAITS),
            "behind": measured(server.unread, "1", no_tcp),
            "held_back": measured(use.held_back, "1", texts.NO_SCHEDULER),
            "stopped": measured(server.stopped, "1", texts.NO_STATE),
            **_payload(view, server.rank),
        },
    )


def _with_workers(view: JobView, number: int, metric: str) -> float | None:
    """What it moved a second with all workers together."""
    rates = [_rate(p) for p in view.parts if (p.rank, p.metric.name) == (number, metric) and _is_worker(p)]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _is_worker(part: PartTotal) -> bool:
    return part.instance.startswith("worker:")


def _rate(part: PartTotal) -> float | None:
    return part.grown / part.seconds if part.grown is not None and part.seconds else None


def _payload(view: JobView, server: str) -> dict[str, Value]:
    """Variables it holds by size class (Lu et al. 2018: small: bytes, medium: KiB, large: MiB), as the chief
    reported them: "COUNT/BYTES"."""
    found = {}
    for facts in view.facts.values():
        for size in SIZES:
            count, slash, held = facts.get(f"payload.{server}.{size}", "").partition("/")
            if slash and count.isdecimal() and held.isdecimal():
                variables = Value(float(count), "1", Provenance.REPORTED, Scope.PROCESS)
                found[f"payload.{size}.variables"] = variables
                found[f"payload.{size}.bytes"] = variables._replace(value=float(held), unit="byte")
    return found
