"""What is known of the links of ranks: what they sent, and how fast it was acknowledged."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.account import Account
from ...model.links import LinkSignals, SlowLink, slow_links
from ...sentences import network as texts
from ...store.view import JobView
from ..evidence.gathering import Gathered

SENT, RATE = "tcp_sent_bytes", "tcp_delivery_rate"
WAITS = {"transfer", "wait_ps"}  # what faster links can shorten, in the names of parts
LEAST_SHARE = 0.05  # of a rank's bytes, to one peer: beside them the rest does not matter


def slow_links_of(view: JobView, gathered: Gathered, accounts: Mapping[int, Account]) -> list[SlowLink]:
    """accounts: of the ranks that train. A server is held by what its workers wait for it."""
    shares = {number: _held(one) for number, one in accounts.items()}
    of_all = sum(shares.values()) / len(shares) if shares else 0.0
    sent, rates = _by_peer(view, SENT), _by_peer(view, RATE)
    links = []
    for number, rank in gathered.evidence.items():
        needed = _seconds_per_byte(sent.get(number, {}), rates.get(number, {}))
        if needed is not None and rank.sent is not None and rank.sent.seconds > 0:
            moved = rank.sent.total / rank.sent.seconds
            held = shares.get(number, of_all)
            links.append(LinkSignals(rank.key, rank.role, rank.host, moved, moved * needed, held))
    return slow_links(links)


def _by_peer(view: JobView, metric: str) -> dict[int, dict[str, float]]:
    """Rank -> peer -> what a counter grew, or the mean of a gauge."""
    found: dict[int, dict[str, float]] = {}
    for part in view.parts:
        amount = part.mean if part.grown is None else part.grown
        if part.metric.name == metric and amount:
            of_rank = found.setdefault(part.rank, {})
            of_rank[part.instance] = of_rank.get(part.instance, 0.0) + amount
    return found


def _seconds_per_byte(sent: Mapping[str, float], rates: Mapping[str, float]) -> float | None:
    """To the peers that most of it goes to; None: at which rate is not known of one of them."""
    main = {peer: moved for peer, moved in sent.items() if moved >= LEAST_SHARE * sum(sent.values())}
    if not main or not main.keys() <= rates.keys():
        return None
    return sum(moved / rates[peer] for peer, moved in main.items()) / sum(main.values())


def _held(one: Account) -> float:
    whole = float(one.duration.sum())
    waited = sum(float(s.sum()) for part, s in one.parts.items() if WAITS.intersection(part.split("|")))
    return waited / whole if whole > 0 else 0.0


def evidence_of(link: SlowLink, step: float) -> list[str]:
    """step: seconds from step to step."""
    return [texts.acknowledged(link.rate, link.usual), texts.on_their_way(link.on_their_way * step)]
