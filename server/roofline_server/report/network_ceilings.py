"""Which ceilings of the network hold for what a host of a job sends to the others."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.roofline import NETWORK, REVERSE, counts
from ..model.values import Provenance
from ..records import NODE_RANK, Ceiling
from ..store.view import JobView
from .node_ceilings import ceilings, hosts

NIC, LOOPBACK = "net.nic", "lo"


def of_network(view: JobView, host: str, every: Sequence[Ceiling]) -> list[Ceiling]:
    """To the nodes the job ran on, where these were measured, else what these nodes sent to it; what a job of
    one node sends leaves no node, so there it is the host's to itself. Where nothing was measured, the speed
    that the NIC's driver says."""
    known = [c for c in every if c.kind == "network" and counts(c)]
    others = set(hosts(view)) - {host}
    near = [c for c in known if c.peer in (others or {host})] or _reverse(view, host)
    return near or ([c for c in known if c.peer != host] or _nic(view, host) if others else [])


def _reverse(view: JobView, host: str) -> list[Ceiling]:
    """What the job's other nodes measured when they sent to this one."""
    return [
        c._replace(peer=other, operation=REVERSE)
        for other in hosts(view)
        for c in ceilings(view, other)
        if other != host and c.kind == "network" and c.peer == host and counts(c)
    ]


def _nic(view: JobView, host: str) -> list[Ceiling]:
    """Of the interfaces with a known speed the one that moved most while the job ran."""
    speed: dict[str, float] = {}
    moved: dict[str, float] = {}
    for part in view.parts:
        if part.rank != NODE_RANK or part.metric.counter_set != "network" or part.instance == LOOPBACK:
            continue
        if view.machines[part.node].host == host:
            if part.metric.name == "nic_link_bytes_per_second" and part.mean:
                speed[part.instance] = part.mean
            elif part.metric.name in ("nic_sent_bytes", "nic_received_bytes"):
                moved[part.instance] = moved.get(part.instance, 0.0) + (part.grown or 0.0)
    if not speed:
        return []
    name = max(speed, key=lambda nic: moved.get(nic, 0.0))
    method = f"speed of {name} in one direction, as its driver says"
    reported = int(Provenance.REPORTED)
    return [
        Ceiling(NIC, "network", NETWORK, "", 0, speed[name], "byte/s", 0.0, method, 0, provenance=reported)
    ]


def network_note(view: JobView, host: str, network: Sequence[Ceiling]) -> str:
    """Where the network ceilings hold for other peers than the job's."""
    if any(c.name == NIC for c in network):
        return f"{network[0].method}: nobody measured it, `roofline-client bench net` does"
    peers = {c.peer for c in network if c.peer}
    if any(c.operation == REVERSE for c in network):
        from_ = f"the network was measured from {', '.join(sorted(peers))} to {host}, not the other way"
        return f"{from_}: `roofline-client bench net --from {host}` does"
    others = set(hosts(view)) - {host} if peers else set()
    if not others or not peers or peers & others:
        return ""
    return f"the network was measured to {', '.join(sorted(peers))}, where the job has no rank"
