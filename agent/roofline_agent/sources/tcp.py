"""TCP bytes each rank sent and received, in all and by peer, from the kernel's own count per connection.

The kernel keeps `tcpi_bytes_acked` and `tcpi_bytes_received` for every connection: payload without
retransmissions, loopback included; who opens or closes a connection is credited one byte each. Netlink's
sock_diag(7) lists them, /proc/PID/fd says whose they are. Bytes of a connection that opened and closed
between two samples are not seen, nor is RDMA or shared memory. peers.py says how a peer is named; what a
closed connection has moved stays with its peer.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, Settings, SourceStatus
from .peers import Address, Peers, address

METRICS = (
    Metric("tcp_sent_bytes", MetricKind.CUMULATIVE, "byte"),
    Metric("tcp_received_bytes", MetricKind.CUMULATIVE, "byte"),
    Metric("tcp_connections", MetricKind.GAUGE, "1"),
)

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, linux/tcp.h
_NETLINK_SOCK_DIAG = 4
_TCPDIAG_GETSOCK = 18  # the older request, which lists IPv4 and IPv6 in one walk through the kernel's table
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_DONE, _ERROR = 3, 2
_INET_DIAG_INFO = 2
# TCP_ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING: the states with bytes of someone's.
_STATES = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBB48xII")
_ATTRIBUTE = struct.Struct("=HH")
_BYTES = struct.Struct("=QQ")
_DIAG_SIZE, _INODE_AT = 72, 68
_ENDS_AT, _ENDS_END = 4, 40  # of struct inet_diag_sockid: two ports, two addresses of up to 16 bytes
_BYTES_ACKED_AT = 120  # in struct tcp_info; bytes_received follows
_OWNERS_EVERY_NS = 5_000_000_000
# Listing walks a table of the kernel's whose size follows the machine's memory: about 1 ms of CPU each time.
_EVERY_NS = 900_000_000
_MAX_PEERS = 256
OTHER = "other"  # all peers of a rank beyond so many


class Connection(NamedTuple):
    inode: int
    sent: int
    received: int
    ends: bytes  # family and both addresses, as the kernel has them

    def addresses(self) -> tuple[Address, Address]:
        """The rank's own end and the far one."""
        ports, size = self.ends[1:5], 4 if self.ends[0] == socket.AF_INET else 16
        own, far = self.ends[5 : 5 + size], self.ends[21 : 21 + size]
        return (
            address(own, int.from_bytes(ports[:2], "big")),
            address(far, int.from_bytes(ports[2:], "big")),
        )


def parse_dump(data: bytes) -> tuple[list[Connection], bool]:
    """The connections in one netlink datagram, and whether the dump is complete.

    Raises OSError with the kernel's error number when the kernel refused.
    """
    found: list[Connection] = []
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, _, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > len(data):
            raise OSError(errno.EBADMSG, "netlink message cut short")
        if kind == _DONE:
            return found, True
        if kind == _ERROR:
            number = -struct.unpack_from("=i", data, at + _HEADER.size)[0]
            raise OSError(number, os.strerror(number))
        found.extend(_connection(data, at + _HEADER.size, at + length))
        at += (length + 3) & ~3
    return found, False


def _connection(data: bytes, begin: int, end: int) -> Iterator[Connection]:
    inode = int.from_bytes(data[begin + _INODE_AT : begin + _INODE_AT + 4], "little")
    at = begin + _DIAG_SIZE
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        # Kernels before 4.2 have a shorter tcp_info without byte counts.
        if kind == _INET_DIAG_INFO and length >= 4 + _BYTES_ACKED_AT + _BYTES.size:
            sent, received = _BYTES.unpack_from(data, at + 4 + _BYTES_ACKED_AT)
            ends = data[begin : begin + 1] + data[begin + _ENDS_AT : begin + _ENDS_END]
            yield Connection(inode, sent, received, ends)
        at += max(4, (length + 3) & ~3)


def list_connections() -> list[Connection]:
    """All TCP connections of this network namespace. Raises OSError where sock_diag is not allowed."""
    found: list[Connection] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as link:
        link.settimeout(2)
        body = _REQUEST.pack(socket.AF_UNSPEC, 0, 0, 1 << (_INET_DIAG_INFO - 1), _STATES, 0)
        link.send(_HEADER.pack(_HEADER.size + len(body), _TCPDIAG_GETSOCK, _REQUEST_DUMP, 1, 0) + body)
        complete = False
        while not complete:
            part, complete = parse_dump(link.recv(1 << 18))
            found.extend(part)
    return found


class _Moved:
    """What one rank and one peer have moved since they were first seen."""

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self.connections = 0  # open now

    def values(self) -> tuple[int, int, int]:
        return self.sent, self.received, self.connections


class _Traffic:
    """What one rank has moved, by peer."""

    def __init__(self) -> None:
        self.inodes: set[int] = set()
        self.looked_ns = 0
        self.names: dict[bytes, str] = {}  # ends of a connection -> peer
        self.peers: dict[str, _Moved] = {}
        self._last: dict[int, Connection] = {}

    def update(self, live: dict[int, Connection], name: Callable[[Connection], str]) -> None:
        """Credit each peer with what its connections have moved since the last call."""
        mine = {inode: live[inode] for inode in self.inodes if inode in live}
        for moved in self.peers.values():
            moved.connections = 0
        for inode, now in mine.items():
            moved = self._moved(name, now)
            before = self._last.get(inode)
            # The number of a closed socket may come again with another one.
            same = before is not None and before.ends == now.ends and before.sent <= now.sent
            moved.sent += now.sent - (before.sent if same and before else 0)
            moved.received += now.received - (before.received if same and before else 0)
            moved.connections += 1
        self._last = mine

    def _moved(self, name: Callable[[Connection], str], connection: Connection) -> _Moved:
        # A peer may be named better later on: what moves from then on counts for the new name.
        peer = self.names.get(connection.ends)
        if peer is None:
            peer = self.names[connection.ends] = name(connection)
        if peer not in self.peers and len(self.peers) >= _MAX_PEERS:
            peer = OTHER
        return self.peers.setdefault(peer, _Moved())

    def total(self) -> tuple[int, int, int]:
        """(bytes sent, bytes received, open connections) over all peers."""
        found = self.peers.values()
        return (
            sum(moved.sent for moved in found),
            sum(moved.received for moved in found),
            sum(moved.connections for moved in found),
        )


class TcpSource:
    """Counter set "tcp": once a second at most, a row per rank and a row for each of its peers.

    None for a rank in another network namespace.
    """

    name = "tcp"
    fills = "bytes sent and received per step and second, by peer"
    measures = False
    counter_set = CounterSet("tcp", METRICS)

    def __init__(self, settings: Settings) -> None:
        self._proc = settings.proc
        self._peers = Peers(settings.proc)
        self._traffic: dict[tuple[int, int], _Traffic] = {}
        self._known: set[int] = set()
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
        began = time.monotonic_ns()
        if not ranks or began - self._sampled_ns < _EVERY_NS:
            return []
        self._sampled_ns = began
        live = {c.inode: c for c in list_connections() if c.inode}
        now = time.monotonic_ns()
        unknown = live.keys() - self._known
        self._known = set(live)
        self._peers.know(ranks)
        seen = []
        for rank in ranks:
            traffic = self._traffic.setdefault((rank.pid, rank.start_ns), _Traffic())
            if self._look(rank, traffic, bool(unknown), now):
                seen.append((rank, traffic))
        if any(traffic.looked_ns == now for _, traffic in seen):
            self._name_anew(seen, live)
        return [row for rank, traffic in seen for row in self._rows(rank, traffic, live, now)]

    def _name_anew(self, seen: Sequence[tuple[Rank, _Traffic]], live: dict[int, Connection]) -> None:
        owners = {}
        for rank, traffic in seen:
            traffic.names.clear()
            for inode in traffic.inodes & live.keys():
                owners[live[inode].addresses()] = rank
        self._peers.own(owners)

    def _rows(self, rank: Rank, traffic: _Traffic, live: dict[int, Connection], now: int) -> Iterator[Sample]:
        traffic.update(live, lambda connection: self._peers.name(rank, *connection.addresses()))
        yield Sample(rank, now, traffic.total())
        for peer, moved in traffic.peers.items():
            yield Sample(rank, now, moved.values(), peer)

    def _look(self, rank: Rank, traffic: _Traffic, unknown: bool, now: int) -> bool:
        # Listing a process's files costs more than all the rest, so only when a new connection showed up,
        # and now and then in case it changed hands.
        age = now - traffic.looked_ns
        if traffic.looked_ns and not (unknown or age > _OWNERS_EVERY_NS):
            return True
        try:
            if not self._same_network(rank.pid):
                return False
            traffic.inodes = set(self._sockets(rank.pid)) | (traffic.inodes & self._known)
        except OSError:
            return False
        traffic.looked_ns = now
        return True

    def _same_network(self, pid: int) -> bool:
        mine = os.stat("/proc/self/ns/net").st_ino
        return os.stat(f"{self._proc}/{pid}/ns/net").st_ino == mine

    def _sockets(self, pid: int) -> Iterator[int]:
        directory = f"{self._proc}/{pid}/fd"
        for name in os.listdir(directory):
            try:
                target = os.readlink(f"{directory}/{name}")
            except OSError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                yield int(target[8:-1])

    def close(self) -> None:
        self._traffic.clear()
