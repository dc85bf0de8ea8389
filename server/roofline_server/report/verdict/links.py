"""What is known of the links of ranks: what they sent, and how fast it was acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...model.account import HELD, UNSEEN, Account
from ...model.evidence import NS, RankEvidence
from ...model.links import LinkSignals, SlowLink, slow_links
from ...records import Table
from ...sentences import network as texts
from ..evidence.counters import counter
from ..evidence.gathering import Gathered

WAITS = ("transfer", "wait_ps", HELD, UNSEEN)  # parts of an account that faster links can shorten


def slow_links_of(gathered: Gathered, accounts: Mapping[int, Account]) -> list[SlowLink]:
    """accounts: of the ranks that train. A server is held by what its workers wait for it."""
    shares = {number: _held(one) for number, one in accounts.items()}
    of_all = sum(shares.values()) / len(shares) if shares else 0.0
    links = []
    for number, rank in gathered.evidence.items():
        found = _link(rank, gathered.tables.get(number, {}), shares.get(number, of_all))
        if found is not None:
            links.append(found)
    return slow_links(links)


def _link(rank: RankEvidence, mine: Mapping[str, Table], held: float) -> LinkSignals | None:
    tcp = mine.get("steps_tcp", {})
    sent, needed = counter(tcp, "tcp_sent_bytes"), counter(tcp, "tcp_delivery_ns")
    if sent is None or needed is None or not (sent.seconds > 0 and needed.seconds > 0 and needed.total > 0):
        return None
    on_their_way = needed.total / NS / needed.seconds
    return LinkSignals(rank.key, rank.role, rank.host, sent.total / sent.seconds, on_their_way, held)


def _held(one: Account) -> float:
    whole = float(one.duration.sum())
    return _seconds(one, WAITS) / whole if whole > 0 else 0.0


def _seconds(one: Account, parts: Iterable[str]) -> float:
    return sum(float(one.parts[part].sum()) for part in parts if part in one.parts)


def evidence_of(link: SlowLink, step: float) -> list[str]:
    """step: seconds from step to step."""
    return [texts.acknowledged(link.rate, link.usual), texts.on_their_way(link.on_their_way * step)]
