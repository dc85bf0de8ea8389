"""Names the far end of a rank's connection: another rank of the job if that is known, else an address.

A rank of this node is known by its socket, which has the same two addresses in reverse order. One of another
node is known by TF_CONFIG, which lists the address of each task: the task that listens there, or, for an
incoming connection, the only task of the sender's host. Otherwise a peer is "HOST:PORT" if it is the side
that serves, and "HOST" if its port was drawn for one connection (ip_local_port_range).
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..records import Rank
from .files import read_once

_DRAWN_PORTS = (32768, 60999)  # ip(7)
_MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address within IPv6
_MAX_ADDRESSES = 4096
_MAX_ROLE = 64
_TRIES, _TRY_AGAIN_S = 20, 30.0  # the name of a pod may be published after its neighbour has started


class Endpoint(NamedTuple):
    """One end of a connection."""

    host: bytes  # 4 or 16 bytes
    port: int

    def __str__(self) -> str:
        host = self.host_name
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def host_name(self) -> str:
        return socket.inet_ntop(socket.AF_INET if len(self.host) == 4 else socket.AF_INET6, self.host)


def endpoint(host: bytes, port: int) -> Endpoint:
    """An address, with IPv4 within IPv6 as IPv4: the two ends of a connection may show it differently."""
    return Endpoint(host[12:] if host[:12] == _MAPPED else host, port)


class Cluster:
    """The tasks of one TF_CONFIG by address; names of hosts are looked up apart, for that may take long."""

    def __init__(self, tasks: Mapping[str, str]) -> None:
        """tasks: "host:port" -> "ps:0"."""
        self._by_address: dict[Endpoint, str] = {}
        self._by_host: dict[bytes, frozenset[str]] = {}
        unknown = [pair for pair in tasks.items() if not self._add(*pair, resolve=False)]

        def resolve() -> None:
            left = unknown
            for _ in range(_TRIES):
                left = [pair for pair in left if not self._add(*pair, resolve=True)]
                if not left:
                    return
                time.sleep(_TRY_AGAIN_S)

        if unknown:
            threading.Thread(target=resolve, name="peer-names", daemon=True).start()

    def _add(self, where: str, task: str, resolve: bool) -> bool:
        """False where the host has no address yet."""
        host, _, port = where.rpartition(":")
        if not (host and port.isascii() and port.isdigit() and len(port) < 6):
            return True  # no address at all
        flags = 0 if resolve else socket.AI_NUMERICHOST
        try:
            found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=flags)
        except (OSError, UnicodeError):
            return False
        for family, _, _, _, sockaddr in found:
            packed = socket.inet_pton(family, str(sockaddr[0]).partition("%")[0])
            place = endpoint(packed, int(port))
            self._by_address[place] = task
            self._by_host[place.host] = self._by_host.get(place.host, frozenset()) | {task}
        return True

    def task_at(self, remote: Endpoint) -> str | None:
        """The task that listens there."""
        return self._by_address.get(remote)

    def only_task_on(self, host: bytes) -> str | None:
        tasks = self._by_host.get(host, frozenset())
        return next(iter(tasks)) if len(tasks) == 1 else None


def read_tasks(environ: bytes | None) -> dict[str, str]:
    """Address -> task ("ps:0") from TF_CONFIG in /proc/PID/environ; empty where it is absent or malformed."""
    for entry in (environ or b"").split(b"\0"):
        if entry.startswith(b"TF_CONFIG="):
            try:
                cluster = json.loads(entry[10:])["cluster"]
                return {
                    str(where): f"{'chief' if role == 'master' else role}:{index}"
                    for role, places in cluster.items()
                    if len(role) <= _MAX_ROLE and role.isprintable()
                    for index, where in enumerate(places[:_MAX_ADDRESSES])
                }
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                return {}
    return {}


def drawn_ports(proc: str) -> tuple[int, int]:
    """First and last port that the kernel draws for connections going out."""
    words = (read_once(f"{proc}/sys/net/ipv4/ip_local_port_range", 64) or b"").split()
    try:
        first, last = map(int, words)
    except ValueError:
        return _DRAWN_PORTS
    return first, last


class Peers:
    """Names peers for the ranks of one node."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._drawn_ports = drawn_ports(proc)
        self._clusters: dict[tuple[tuple[str, str], ...], Cluster] = {}
        self._cluster_of: dict[tuple[int, int], Cluster] = {}  # by pid and start
        self._owners: dict[tuple[Endpoint, Endpoint], Rank] = {}

    def know(self, ranks: Iterable[Rank]) -> None:
        """Read the clusters of new ranks, forget those of ranks that have gone."""
        before, self._cluster_of = self._cluster_of, {}
        for rank in ranks:
            incarnation = (rank.pid, rank.start_ns)
            cluster = before.get(incarnation)
            if cluster is None:
                # Ranks with the same tasks share a cluster, so that each name is looked up once.
                tasks = read_tasks(read_once(f"{self._proc}/{rank.pid}/environ", 1 << 20))
                key = tuple(sorted(tasks.items()))
                if key not in self._clusters:
                    self._clusters[key] = Cluster(tasks)
                cluster = self._clusters[key]
            self._cluster_of[incarnation] = cluster
        used = set(map(id, self._cluster_of.values()))
        self._clusters = {key: one for key, one in self._clusters.items() if id(one) in used}

    def set_owners(self, owners: Mapping[tuple[Endpoint, Endpoint], Rank]) -> None:
        """Set which rank owns each connection of this node: (own address, far address) -> rank."""
        self._owners = dict(owners)

    def name(self, rank: Rank, local: Endpoint, remote: Endpoint) -> str:
        """The peer of a connection of `rank`."""
        owner = self._owners.get((remote, local))
        if owner is not None and owner.job == rank.job:
            return owner.key
        cluster = self._cluster_of.get((rank.pid, rank.start_ns))
        is_drawn = self._drawn_ports[0] <= remote.port <= self._drawn_ports[1]
        task = None
        if cluster is not None:
            task = cluster.task_at(remote)
            if task is None and is_drawn:
                task = cluster.only_task_on(remote.host)
                if task == rank.key:  # some other process of this node
                    task = None
        if task is not None:
            return task
        return remote.host_name if is_drawn else str(remote)
