"""CPUs of the nodes of a job that are busy, and those that processes other than its ranks keep busy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...model.causes.busy_node import BUSY, BusyNode
from ...model.evidence import NS, CounterEvidence, RankEvidence, StepEvidence
from ...records import NODE_RANK, rows
from ...store.view import JobView
from ..ceilings.nodes import cpus_of
from ..evidence.counters import counter
from ..evidence.gathering import Gathered

IDLE = 0.5  # of the CPUs of a node that are in use, on average
COUNTER = "node_cpu_busy_ns"
TABLE = "steps_node_node"


class NodeUse(NamedTuple):
    """CPUs, means over the steps that were gathered: that were busy, and of these what is no rank's."""

    busy: float
    foreign: float


def foreign_cpus(view: JobView, gathered: Gathered) -> dict[str, float]:
    """Host -> CPUs that others keep busy, see `node_uses`."""
    return {host: use.foreign for host, use in node_uses(view, gathered).items()}


def node_uses(view: JobView, gathered: Gathered) -> dict[str, NodeUse]:
    """By host. Programs that a rank starts, such as the processes of a data loader, count as others. Hosts of
    which it is not known are left out."""
    counted = _counted_in(gathered)
    busy = _busy_in_all(view) | {host: cpus for host, (cpus, _) in counted.items()}
    others = dict(busy)
    for rank in gathered.evidence.values():
        if rank.host in others:
            used = _cpus(rank.cpu_ns)
            if used is None:
                del others[rank.host]
            else:
                others[rank.host] -= used * (
                    _presence(rank, counted[rank.host][1]) if rank.host in counted else 1.0
                )
    return {host: NodeUse(busy[host], max(0.0, cpus)) for host, cpus in others.items()}


def busy_node(view: JobView, gathered: Gathered, uses: dict[str, NodeUse]) -> BusyNode | None:
    """The node of a job that has only one, where most of its CPUs are in use."""
    hosts = {rank.host for rank in gathered.evidence.values()}
    host = next(iter(hosts)) if len(hosts) == 1 else ""
    cpus = cpus_of(view, host) if host in uses else 0
    if not cpus or uses[host].busy < BUSY * cpus:
        return None
    return BusyNode(host, float(cpus), uses[host].busy, uses[host].foreign)


def idle_nodes(view: JobView, uses: Mapping[str, NodeUse]) -> set[str]:
    """Hosts with more idle CPUs than busy ones."""
    return {host for host, use in uses.items() if use.busy < IDLE * cpus_of(view, host)}


def _counted_in(gathered: Gathered) -> dict[str, tuple[float, StepEvidence]]:
    """Host -> CPUs that were busy in the steps of one of its ranks, that with most of them, and these."""
    most: dict[str, int] = {}
    found: dict[str, tuple[float, StepEvidence]] = {}
    for number, rank in gathered.evidence.items():
        table = gathered.tables.get(number, {}).get(TABLE, {})
        cpus = _cpus(counter(table, COUNTER))
        if cpus is not None and rows(table) > most.get(rank.host, 0):
            most[rank.host], found[rank.host] = rows(table), (cpus, rank.steps)
    return found


def _presence(rank: RankEvidence, others: StepEvidence) -> float:
    """The share of the time of these steps in which the rank had steps, too: it may have begun later."""
    own = rank.steps
    if not len(own.step) or not len(others.step):
        return 1.0
    begin, end = int(others.begin_ns[0]), int(others.end_ns[-1])
    both = min(end, int(own.end_ns[-1])) - max(begin, int(own.begin_ns[0]))
    return max(0, both) / (end - begin) if end > begin else 1.0


def _busy_in_all(view: JobView) -> dict[str, float]:
    """How many CPUs of each host were busy, on average over the whole job, for want of readings in steps."""
    busy: dict[str, float] = {}
    for part in view.parts:
        whole = part.rank == NODE_RANK and not part.instance and part.metric.name == COUNTER
        if whole and part.grown is not None and part.seconds > 0:
            host = view.machines[part.node].host
            busy[host] = busy.get(host, 0.0) + part.grown / NS / part.seconds
    return busy


def _cpus(counted: CounterEvidence | None) -> float | None:
    if counted is None or not counted.seconds > 0:
        return None
    return counted.total / NS / counted.seconds
