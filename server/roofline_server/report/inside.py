"""Which of the TCP bytes of ranks stayed on their node: the network between nodes did not carry these."""

from __future__ import annotations

from collections.abc import Collection

from ..model.network import Inside
from ..store.view import JobView
from .members import host_of, nodes_of

LOOPBACK = ("127.", "[::1]", "::1", "localhost")
SENT, RECEIVED = "tcp_sent_bytes", "tcp_received_bytes"
UNKNOWN = "what stayed inside the node is among them: bytes are not known by peer"


def inside(view: JobView, numbers: Collection[int]) -> Inside:
    """Shares, over the whole job, of the TCP bytes of these ranks. Of a job on one host nothing is left out:
    there the ceiling is that of the host to itself."""
    if len({view.machines[node].host for node in nodes_of(view)}) < 2:
        return Inside()
    known = {name: _share(view, numbers, name) for name in (SENT, RECEIVED)}
    if any(share is None for share in known.values()):
        return Inside(note=UNKNOWN if _has_mates(view, numbers) else "")
    return Inside(known[SENT] or 0.0, known[RECEIVED] or 0.0)


def _share(view: JobView, numbers: Collection[int], metric: str) -> float | None:
    """None: nothing is known by peer."""
    home = {f"{key.role}:{key.index}": host_of(view, number) for number, key in view.ranks.items()}
    here = total = 0.0
    for part in view.parts:
        if part.rank not in numbers or part.metric.name != metric or not part.instance:
            continue
        total += part.grown or 0.0
        near = home.get(part.instance) == host_of(view, part.rank) or part.instance.startswith(LOOPBACK)
        here += near * (part.grown or 0.0)
    return here / total if total else None


def _has_mates(view: JobView, numbers: Collection[int]) -> bool:
    hosts = [host_of(view, number) for number in view.ranks]
    return any(hosts.count(host_of(view, number)) > 1 for number in numbers)
