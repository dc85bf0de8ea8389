"""What is known of the links of ranks: what they sent, and how fast it was acknowledged."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.account import Account
from ...model.evidence import RankEvidence
from ...model.links import LinkSignals, SlowLink, slow_links
from ...sentences import network as texts
from ...store.view import JobView
from ..ceilings.network import of_network
from ..ceilings.nodes import ceilings
from ..evidence.gathering import Gathered

SENT, RATE = "tcp_sent_bytes", "tcp_delivery_rate"
WAITS = {"transfer", "wait_ps"}  # what faster links can shorten, in the names of parts
LEAST_SHARE = 0.05  # of a rank's bytes, to one peer: beside them the rest does not matter


def slow_links_of(view: JobView, gathered: Gathered, accounts: Mapping[int, Account]) -> list[SlowLink]:
    """accounts: of the ranks that train. A server is held by what its workers wait for it."""
    shares = {number: _held(one) for number, one in accounts.items()}
    of_all = sum(shares.values()) / len(shares) if shares else 0.0
    hosts = {rank.key: rank.host for rank in gathered.evidence.values()}
    peers, links = _by_peer(view), []
    for number, rank in gathered.evidence.items():
        sent, rates = peers.get(number, ({}, {}))
        for leaves in (False, True):
            to = {peer: n for peer, n in sent.items() if (hosts.get(peer) != rank.host) == leaves}
            found = _link(rank, leaves, to, sum(sent.values()), rates, shares.get(number, of_all))
            if found is not None:
                links.append(found._replace(ceiling=_ceiling(view, rank.host) if leaves else None))
    return slow_links(links)


def _ceiling(view: JobView, host: str) -> float | None:
    """byte/s that the link of a host does, the fastest way that was measured."""
    known = [c.value for c in of_network(view, host, ceilings(view, host))]
    return max(known, default=None)


def _by_peer(view: JobView) -> dict[int, tuple[dict[str, float], dict[str, float]]]:
    """Of each rank by peer, the bytes that it sent, and the mean rate at which they were acknowledged."""
    found: dict[int, tuple[dict[str, float], dict[str, float]]] = {}
    for part in view.parts:
        if part.metric.name in (SENT, RATE):
            sent, rates = found.setdefault(part.rank, ({}, {}))
            if part.metric.name == SENT and part.grown:
                sent[part.instance] = sent.get(part.instance, 0.0) + part.grown
            elif part.mean:
                rates[part.instance] = part.mean
    return found


def _link(
    rank: RankEvidence,
    leaves: bool,
    to: Mapping[str, float],
    whole: float,
    rates: Mapping[str, float],
    held: float,
) -> LinkSignals | None:
    """to: bytes by peer, of the job's whole time; None: at which rate is not known of one that matters."""
    main = {peer: moved for peer, moved in to.items() if moved >= LEAST_SHARE * whole}
    if not main or not main.keys() <= rates.keys():
        return None
    if rank.sent is None or not (rank.sent.total > 0 and rank.sent.seconds > 0):
        return None  # it sent nothing in these steps
    # In the steps that are looked at it sent to each as much of the whole as over its life.
    per_second = rank.sent.total / rank.sent.seconds / whole
    moved = per_second * sum(main.values())
    needed = per_second * sum(n / rates[peer] for peer, n in main.items())
    at_once = sum(rates[peer] for peer in main)
    return LinkSignals(rank.key, rank.role, rank.host, leaves, moved, needed, held, at_once=at_once)


def _held(one: Account) -> float:
    whole = float(one.duration.sum())
    waited = sum(float(s.sum()) for part, s in one.parts.items() if _is_wait(part))
    return waited / whole if whole > 0 else 0.0


def _is_wait(part: str) -> bool:
    """Not what GPUs do while they compute or communicate, where that cannot be told apart."""
    return "compute" not in (names := part.split("|")) and not WAITS.isdisjoint(names)


def evidence_of(link: SlowLink, step: float) -> list[str]:
    """step: seconds from step to step."""
    return [texts.acknowledged(link.rate, link.usual), texts.on_their_way(link.on_their_way * step)]
