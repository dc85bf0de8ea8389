"""CPUs of the nodes of a job that processes other than its ranks keep busy."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.evidence import NS, RankEvidence
from ...records import NODE_RANK
from ...store.view import JobView

BUSY = "node_cpu_busy_ns"


def foreign_cpus(view: JobView, ranks: Mapping[int, RankEvidence]) -> dict[str, float]:
    """Host -> CPUs, mean over the job: what the node was busy less what the ranks used. Programs that a rank
    starts, such as the processes of a data loader, count as others. Hosts of which it is not known are left
    out."""
    busy: dict[str, float] = {}
    for part in view.parts:
        whole = part.rank == NODE_RANK and not part.instance and part.metric.name == BUSY
        if whole and part.grown is not None and part.seconds > 0:
            host = view.machines[part.node].host
            busy[host] = busy.get(host, 0.0) + part.grown / NS / part.seconds
    for rank in ranks.values():
        if rank.host in busy:
            if rank.cpu_ns is None or not rank.cpu_ns.seconds > 0:
                del busy[rank.host]
            else:
                busy[rank.host] -= rank.cpu_ns.total / NS / rank.cpu_ns.seconds
    return {host: max(0.0, cpus) for host, cpus in busy.items()}
