"""CPUs of the nodes of a job that processes other than its ranks keep busy."""

from __future__ import annotations

from ...model.evidence import NS, CounterEvidence
from ...records import NODE_RANK, rows
from ...store.view import JobView
from ..evidence.counters import counter
from ..evidence.gathering import Gathered

BUSY = "node_cpu_busy_ns"
TABLE = "steps_node_node"


def foreign_cpus(view: JobView, gathered: Gathered) -> dict[str, float]:
    """Host -> CPUs, mean over the steps that were gathered: what the node was busy less what the ranks used.
    Programs that a rank starts, such as the processes of a data loader, count as others. Hosts of which it
    is not known are left out."""
    busy = _busy_in_all(view) | _busy_in_steps(gathered)
    for rank in gathered.evidence.values():
        if rank.host in busy:
            used = _cpus(rank.cpu_ns)
            if used is None:
                del busy[rank.host]
            else:
                busy[rank.host] -= used
    return {host: max(0.0, cpus) for host, cpus in busy.items()}


def _busy_in_steps(gathered: Gathered) -> dict[str, float]:
    """Host -> CPUs that were busy in the steps of its ranks: those of the rank with most of them."""
    found: dict[str, tuple[int, float]] = {}
    for number, rank in gathered.evidence.items():
        table = gathered.tables.get(number, {}).get(TABLE, {})
        cpus = _cpus(counter(table, BUSY))
        if cpus is not None and rows(table) > found.get(rank.host, (0, 0.0))[0]:
            found[rank.host] = rows(table), cpus
    return {host: cpus for host, (_, cpus) in found.items()}


def _busy_in_all(view: JobView) -> dict[str, float]:
    """The same over the whole job, for want of readings in steps."""
    busy: dict[str, float] = {}
    for part in view.parts:
        whole = part.rank == NODE_RANK and not part.instance and part.metric.name == BUSY
        if whole and part.grown is not None and part.seconds > 0:
            host = view.machines[part.node].host
            busy[host] = busy.get(host, 0.0) + part.grown / NS / part.seconds
    return busy


def _cpus(counted: CounterEvidence | None) -> float | None:
    if counted is None or not counted.seconds > 0:
        return None
    return counted.total / NS / counted.seconds
