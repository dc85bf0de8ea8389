"""What is known of the links of ranks: what they sent, and how fast it was acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...model.account.account import Account
from ...model.causes.links import LinkSignals, SlowLink, slow_links
from ...model.evidence import NS, RankEvidence
from ...sentences import network as texts
from ...store.view import JobView, once
from ..ceilings.network import of_network
from ..ceilings.nodes import ceilings
from ..evidence.gathering import Gathered

SENT, RATE = "tcp_sent_bytes", "tcp_delivery_rate"
BUSY, LIMITED = "tcp_busy_ns", "tcp_window_limited_ns"
WAITS = {"transfer", "wait_ps"}  # what faster links can shorten, in the names of parts
LEAST_SHARE = 0.05  # of a rank's bytes, to one peer: compared with them the rest does not matter


class _Way(NamedTuple):
    """What a rank sent to one peer in the whole job. busy, limited: seconds in which data were in flight,
    and of these with the peer's window full; rate: byte/s of what was sent last, mean; None: not known, or of
    loopback, which has none."""

    sent: float = 0.0
    busy: float | None = None
    limited: float = 0.0
    rate: float | None = None

    def seconds(self, counted: bool) -> float | None:
        """That the bytes were on their way. Who is slow to read what has come is no link: his window is full
        then. counted: data in flight are acknowledged when they arrive, or by a peer that is late when it
        comes. Those of a server are not, but together with the next request."""
        if not self.rate:
            return None
        if counted and self.busy:
            return self.busy - self.limited
        return self.sent / self.rate * (1 - self.limited / self.busy if self.busy else 1.0)


def slow_links_of(view: JobView, gathered: Gathered, accounts: Mapping[int, Account]) -> list[SlowLink]:
    """accounts: of the ranks that train. A server is held by what its workers wait for it."""
    shares = {number: _share(one, _is_wait) for number, one in accounts.items()}
    late = {number: _share(one, _is_for_others) for number, one in accounts.items()}
    of_all = sum(shares.values()) / len(shares) if shares else 0.0
    hosts = {rank.key: rank.host for rank in gathered.evidence.values()}
    peers = _by_peer(view)
    serves = any(rank.role == "ps" for rank in gathered.evidence.values())
    found: dict[str, SlowLink] = {}
    for counted in (False,) if serves else (False, True):
        links = []
        for number, rank in gathered.evidence.items():
            ways = peers.get(number, {})
            whole = sum(way.sent for way in ways.values())
            for leaves in (False, True):
                to = [way for peer, way in ways.items() if (hosts.get(peer) != rank.host) == leaves]
                waits = late.get(number, 0.0) if counted else 0.0
                link = _link(
                    rank=rank,
                    leaves=leaves,
                    to=to,
                    whole=whole,
                    counted=counted,
                    held=shares.get(number, of_all),
                    late=waits,
                )
                if link is not None:
                    links.append(link._replace(ceiling=_ceiling(view, rank.host) if leaves else None))
        for slow in slow_links(links):
            if slow.rank not in found or slow.saved > found[slow.rank].saved:
                found[slow.rank] = slow
    return sorted(found.values(), key=lambda link: -link.saved)


def _ceiling(view: JobView, host: str) -> float | None:
    """byte/s that the link of a host does, the fastest way that was measured."""
    known = [c.value for c in of_network(view, host, ceilings(view, host))]
    return max(known, default=None)


def has_link(view: JobView, number: int) -> bool:
    """Whether most of what a rank sent went over a link, not over loopback."""
    ways = _by_peer(view).get(number, {}).values()
    return sum(way.sent for way in ways if way.rate) > sum(way.sent for way in ways) / 2


@once
def _by_peer(view: JobView) -> dict[int, dict[str, _Way]]:
    """What each rank sent to each peer."""
    found: dict[int, dict[str, _Way]] = {}
    for part in view.parts:
        ways = found.setdefault(part.rank, {})
        way = ways.get(part.instance, _Way())
        if part.metric.name == SENT and part.grown:
            ways[part.instance] = way._replace(sent=way.sent + part.grown)
        elif part.metric.name == BUSY and part.grown is not None:
            ways[part.instance] = way._replace(busy=(way.busy or 0.0) + part.grown / NS)
        elif part.metric.name == LIMITED and part.grown is not None:
            ways[part.instance] = way._replace(limited=way.limited + part.grown / NS)
        elif part.metric.name == RATE and part.mean:
            ways[part.instance] = way._replace(rate=part.mean)
    return found


def _link(
    rank: RankEvidence,
    leaves: bool,
    to: Sequence[_Way],
    whole: float,
    counted: bool,
    held: float,
    late: float,
) -> LinkSignals | None:
    """whole: bytes that it sent in the whole job; held, late: shares of the time, see LinkSignals; None: how
    fast is not known of any way that matters. Beside a way with a link, one over loopback has none."""
    matter = [way for way in to if way.sent > 0 and way.sent >= LEAST_SHARE * whole]
    main = [way for way in matter if way.seconds(counted) is not None]
    seconds = sum(way.seconds(counted) or 0.0 for way in main)
    if not seconds > 0:
        return None
    if rank.sent is None or not (rank.sent.total > 0 and rank.sent.seconds > 0):
        return None  # it sent nothing in these steps
    # In the steps that are looked at it sent to each as much of the whole as over its life.
    per_second = rank.sent.total / rank.sent.seconds / whole
    moved = per_second * sum(way.sent for way in main)
    at_once = sum(way.rate or 0.0 for way in main)
    needed = per_second * seconds
    return LinkSignals(
        rank=rank.key,
        role=rank.role,
        host=rank.host,
        leaves=leaves,
        sent=moved,
        on_their_way=needed,
        held=held,
        late=late,
        at_once=at_once,
    )


def _share(one: Account, counts: Callable[[str], bool]) -> float:
    """Share of its time that the parts that count take."""
    whole = float(one.duration.sum())
    taken = sum(seconds for part, seconds in one.sums.items() if counts(part))
    return taken / whole if whole > 0 else 0.0


def _is_for_others(part: str) -> bool:
    """A peer that has not come to the collective yet puts off its acknowledgement, by 40 ms at most (delayed
    acknowledgements, RFC 1122, section 4.2.3.2): what was sent to it seems to be in flight meanwhile."""
    return part == "wait_ranks"


def _is_wait(part: str) -> bool:
    """Not what GPUs do while they compute or communicate, where that cannot be told apart."""
    return "compute" not in (names := part.split("|")) and not WAITS.isdisjoint(names)


def evidence_of(link: SlowLink, step: float) -> list[str]:
    """step: seconds from step to step."""
    return [texts.acknowledged(link.rate, link.usual), texts.on_their_way(link.on_their_way * step)]
