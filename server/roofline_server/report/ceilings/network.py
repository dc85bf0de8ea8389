"""Which ceilings of the network hold for what a host of a job sends to the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from roofline.answers.machines import Ceiling
from roofline.answers.roofline import RoofPoint
from roofline.answers.values import Provenance

from ...model.roofline.roofs import NETWORK, REVERSE, counts
from ...records import NODE_RANK
from ...sentences import network as texts
from ...store.view import JobView, once
from .nodes import ceilings, hosts, late_notes

EVERY_KIND = ("compute", "memory", "network")
KINDS = {"classic": ("compute", "memory"), NETWORK: ("compute", "network")}  # of ceilings
NIC, LOOPBACK = "net.nic", "lo"


def of_network(view: JobView, host: str, every: Sequence[Ceiling]) -> list[Ceiling]:
    """To the nodes the job ran on, where these were measured, else what these nodes sent to it; what a job of
    one node sends leaves no node, so there it is the host's to itself. Where nothing was measured, the speed
    that the NIC's driver reports."""
    known = [c for c in every if c.kind == "network" and counts(c)]
    others = set(hosts(view)) - {host}
    near = [c for c in known if c.peer in (others or {host})] or _sent_to(view).get(host, [])
    if near or not others:
        return near
    return [c for c in known if c.peer != host] or _link_speed(view, host)


@once
def _sent_to(view: JobView) -> dict[str, list[Ceiling]]:
    """host -> what the job's other nodes measured when they sent to it."""
    found: dict[str, list[Ceiling]] = {}
    for sender in hosts(view):
        for c in ceilings(view, sender):
            if c.kind == "network" and c.peer != sender and counts(c):
                found.setdefault(c.peer, []).append(c._replace(peer=sender, operation=REVERSE))
    return found


@once
def _link_speed(view: JobView, host: str) -> list[Ceiling]:
    """Of the interfaces with a known speed the one that moved most while the job ran."""
    speed: dict[str, float] = {}
    moved: dict[str, float] = {}
    for part in view.parts:
        if part.rank != NODE_RANK or part.metric.counter_set != "network" or part.instance == LOOPBACK:
            continue
        if view.machines[part.node].host != host:
            continue
        if part.metric.name == "nic_link_bytes_per_second" and part.mean:
            speed[part.instance] = part.mean
        elif part.metric.name in ("nic_sent_bytes", "nic_received_bytes"):
            moved[part.instance] = moved.get(part.instance, 0.0) + (part.grown or 0.0)
    if not speed:
        return []
    name = max(speed, key=lambda nic: moved.get(nic, 0.0))
    return [
        Ceiling(
            NIC,
            "network",
            NETWORK,
            "",
            0,
            speed[name],
            "byte/s",
            0.0,
            texts.link_speed(name),
            0,
            provenance=Provenance.REPORTED,
        )
    ]


def network_note(view: JobView, host: str, network: Sequence[Ceiling]) -> str:
    """Where the network ceilings hold for other peers than the job's, or for no network."""
    peers = {c.peer for c in network if c.peer}
    if any(c.name == NIC for c in network):
        return texts.not_measured(network[0].method, _to_measure(view, host))
    if any(c.operation == REVERSE for c in network):
        return texts.measured_back(sorted(peers), host, _to_measure(view, host))
    if host in peers:
        return texts.over_loopback(host)
    others = set(hosts(view)) - {host}
    if not peers or not others or peers & others:
        return ""
    return texts.to_other_nodes(sorted(peers))


def _to_measure(view: JobView, host: str) -> str:
    """What measures the network of a host to another of the job; to itself where there is no other."""
    other = next((name for name in hosts(view) if name != host), host)
    return texts.to_measure(host, other)


def network_notes(view: JobView, shown: Collection[str]) -> list[str]:
    """What to know about the network ceilings of these hosts, and what to run where there are none."""
    notes, unmeasured = [], []
    for host in hosts(view):
        if host not in shown:
            continue
        network = of_network(view, host, ceilings(view, host))
        note = network_note(view, host, network)
        if note:
            notes.append(texts.note_of(host, note))
        if not network:
            unmeasured.append(host)
    if unmeasured:
        notes.append(texts.no_ceilings(unmeasured, _to_measure(view, unmeasured[0])))
    return notes


def ceiling_notes(view: JobView, kind: str, points: Sequence[RoofPoint]) -> list[str]:
    """When the ceilings that this kind of roofline is of were measured, and what those of the network hold
    for."""
    notes = late_notes(view, KINDS.get(kind, EVERY_KIND))
    return [*notes, *network_notes(view, {p.host for p in points if p.level == NETWORK})]
