"""TCP bytes each rank sent and received, in all and by peer, from the kernel's own count per connection.

The kernel keeps `tcpi_bytes_acked` and `tcpi_bytes_received` for every connection: payload without
retransmissions, loopback included; opening or closing a connection counts as one byte each. Netlink's
sock_diag(7) lists them (sock_diag.py), /proc/PID/fd shows which process owns them. Bytes of a connection that
opened and closed between two samples are not seen, nor is RDMA or shared memory. peers.py says how a peer is
named; what a closed connection has moved stays with its peer.

Who waits for whom: a rank with bytes that have arrived and are not read yet does not keep up (it is stopped,
or busy with something else). When data were last sent and received shows less than it seems: gRPC's
acknowledgements of pings and window updates follow each message, and both directions are in use at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from functools import partial

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, SourceSettings, SourceStatus
from .namespaces import Lists, namespace_of
from .peers import Peers
from .sock_diag import Connection, list_connections

METRICS = (
    Metric("tcp_sent_bytes", MetricKind.CUMULATIVE, "byte"),
    Metric("tcp_received_bytes", MetricKind.CUMULATIVE, "byte"),
    Metric("tcp_connections", MetricKind.GAUGE, "1"),
    Metric("tcp_unread_bytes", MetricKind.GAUGE, "byte"),
    Metric("tcp_busy_ns", MetricKind.CUMULATIVE, "ns"),
    Metric("tcp_window_limited_ns", MetricKind.CUMULATIVE, "ns"),
    Metric("tcp_delivery_rate", MetricKind.GAUGE, "byte/s"),
)

Values = tuple[int, int, int, int, int | None, int | None, int | None]  # as METRICS has them

_OWNERS_EVERY_NS = 5_000_000_000
# Steps of some tenths of a second have their own bytes; more often it would cost too much while connections
# are being opened (listing.py).
_EVERY_NS = 230_000_000
_MAX_PEERS = 256
OTHER = "other"  # all peers of a rank beyond so many


class _PeerTraffic:
    """What one rank and one peer have moved since they were first seen."""

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self.connections = 0  # open now
        self.unread = 0  # of these
        self.busy_ns: int | None = None
        self.limited_ns: int | None = None
        self.rate: int | None = None  # of the fastest connection that has sent since the last sample

    def add(self, now: Connection, before: Connection | None) -> None:
        """A connection that is open now; before: what was counted of it already."""
        sent = now.sent - (before.sent if before else 0)
        self.sent += sent
        self.received += now.received - (before.received if before else 0)
        self.connections += 1
        self.unread += now.unread
        self.busy_ns = _grown(self.busy_ns, now.busy_ns, before.busy_ns if before else 0)
        self.limited_ns = _grown(self.limited_ns, now.limited_ns, before.limited_ns if before else 0)
        if now.rate and sent:
            self.rate = max(self.rate or 0, now.rate)

    def values(self) -> Values:
        counted = self.sent, self.received, self.connections, self.unread
        return *counted, self.busy_ns, self.limited_ns, self.rate


def _grown(total: int | None, now: int | None, before: int | None) -> int | None:
    return total if now is None else (total or 0) + max(0, now - (before or 0))


class RankTraffic:
    """What one rank has moved, by peer."""

    def __init__(self) -> None:
        self.namespace = 0  # 0: not known yet
        self.inodes: set[int] = set()
        self.files = 0  # how many it has open; 0: not known
        self.looked_ns = 0  # when its files were listed
        self.seen = False  # and whether they could be
        self.names: dict[bytes, str] = {}  # ends of a connection -> peer
        self.peers: dict[str, _PeerTraffic] = {}
        self._last: dict[int, Connection] = {}

    def update(self, live: dict[int, Connection], name: Callable[[Connection], str]) -> None:
        """Credit each peer with what its connections have moved since the last call."""
        mine = {inode: live[inode] for inode in self.inodes if inode in live}
        for traffic in self.peers.values():
            traffic.connections = traffic.unread = 0
            traffic.rate = None
        for inode, now in mine.items():
            # A peer may be named better later on: what moves from then on counts for the new name.
            peer = self.names.get(now.ends)
            if peer is None:
                peer = self.names[now.ends] = name(now)
            if peer not in self.peers and len(self.peers) >= _MAX_PEERS:
                peer = OTHER
            before = self._last.get(inode)
            # The number of a closed socket may come again with another one.
            same = before is not None and before.ends == now.ends and before.sent <= now.sent
            self.peers.setdefault(peer, _PeerTraffic()).add(now, before if same else None)
        # A list may miss a connection that is open: its bytes do not come anew with the next one.
        self._last = {inode: one for inode, one in self._last.items() if inode in self.inodes} | mine

    def total(self) -> Values:
        """Over all peers."""
        if not self.peers:
            return (0,) * 7
        columns = zip(*(traffic.values() for traffic in self.peers.values()), strict=True)
        sent, received, connections, unread, busy, limited, rates = columns
        counted = sum(sent), sum(received), sum(connections), sum(unread)
        return *counted, _sum(busy), _sum(limited), max(_known(rates), default=None)


def _sum(column: Sequence[int | None]) -> int | None:
    known = _known(column)
    return sum(known) if known else None


def _known(column: Sequence[int | None]) -> list[int]:
    return [value for value in column if value is not None]


def _open_files(proc: str, pid: int) -> int:
    """How many files a process has open; 0: it has gone, or the kernel does not tell (before Linux 6.2)."""
    try:
        return os.stat(f"{proc}/{pid}/fd").st_size
    except OSError:
        return 0


class TcpSource:
    """Counter set "tcp": four times a second at most, a row per rank and a row for each of its peers.

    None for a rank in another network namespace that the agent may not enter (namespaces.why_unseen).
    """

    name = "tcp"
    fills = "bytes sent and received per step and second, by peer"
    measures = False
    counter_set = CounterSet("tcp", METRICS)

    def __init__(self, settings: SourceSettings) -> None:
        self._clock = settings.clock
        self._proc = settings.proc
        self._peers = Peers(settings.proc)
        self._traffic: dict[tuple[int, int], RankTraffic] = {}
        self._known: set[int] = set()
        self._lists = Lists(settings.proc, settings.clock)
        self._sampled_ns = 0

    def probe(self) -> SourceStatus:
        try:
            list_connections()
        except OSError as error:
            return SourceStatus(
                self.name,
                False,
                f"the kernel does not list TCP connections here ({error.strerror or error})",
                "load the tcp_diag module on the host (modprobe tcp_diag), or allow netlink in the container",
            )
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        keys = {(rank.pid, rank.start_ns) for rank in ranks}
        for key in self._traffic.keys() - keys:
            del self._traffic[key]
        began = self._clock()
        if not ranks or began - self._sampled_ns < _EVERY_NS:
            return []
        self._sampled_ns = began

        for rank in ranks:
            traffic = self._traffic.setdefault((rank.pid, rank.start_ns), RankTraffic())
            traffic.namespace = traffic.namespace or namespace_of(self._proc, rank.pid)
        places = {traffic.namespace: pid for (pid, _), traffic in self._traffic.items() if traffic.namespace}
        look = any(began - traffic.looked_ns > _OWNERS_EVERY_NS for traffic in self._traffic.values())
        owned = set().union(*(traffic.inodes for traffic in self._traffic.values()))
        live = self._lists.connections(places, None if look else owned, self._same_files)

        now = self._clock()
        # Finding the owner of a connection costs most: done when a new one showed up, and now and
        # then in case one changed hands.
        look = look or not live.keys() <= self._known
        self._known = set(live)
        self._peers.know(ranks)
        if look:
            self._find_sockets(ranks, now)
        seen = []
        for rank in ranks:
            traffic = self._traffic[rank.pid, rank.start_ns]
            if traffic.seen and traffic.namespace in self._lists.listed:
                seen.append((rank, traffic))
        if look:
            self._name_anew(seen, live)

        rows = []
        for rank, traffic in seen:
            traffic.update(live, partial(self._name_of_peer, rank))
            rows.append(Sample(rank, now, traffic.total()))
            rows.extend(Sample(rank, now, one.values(), peer) for peer, one in traffic.peers.items())
        return rows

    def _same_files(self) -> bool:
        """Whether each rank has as many files open as at the last call; a rank that is new has not."""
        same = True
        for (pid, _), traffic in self._traffic.items():
            before, traffic.files = traffic.files, _open_files(self._proc, pid)
            same = same and traffic.files == before > 0
        return same

    def _find_sockets(self, ranks: Sequence[Rank], now: int) -> None:
        """List the files of all ranks again."""
        for rank in ranks:
            traffic = self._traffic[rank.pid, rank.start_ns]
            traffic.looked_ns = now
            directory = f"{self._proc}/{rank.pid}/fd"
            try:
                files = os.listdir(directory)
            except OSError:
                traffic.seen = False
                continue
            traffic.seen = True
            traffic.inodes &= self._known
            for file in files:
                with contextlib.suppress(OSError):  # closed meanwhile
                    target = os.readlink(f"{directory}/{file}")
                    if target.startswith("socket:["):
                        traffic.inodes.add(int(target[8:-1]))

    def _name_anew(self, seen: Sequence[tuple[Rank, RankTraffic]], live: dict[int, Connection]) -> None:
        """Forget the names of all peers, and learn which ranks own the connections of this node."""
        owners = {}
        for rank, traffic in seen:
            traffic.names.clear()
            for inode in traffic.inodes & live.keys():
                owners[live[inode].addresses()] = rank
        self._peers.set_owners(owners)

    def _name_of_peer(self, rank: Rank, connection: Connection) -> str:
        return self._peers.name(rank, *connection.addresses())

    def close(self) -> None:
        self._traffic.clear()
        self._lists.close()
