"""Which of the bytes of ranks the network between nodes carried: how the ranks lie on the nodes, and who the
peers of their connections are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ...model.roofline.network import Layout, LocalShare
from ...records import NODE_RANK
from ...sentences import network as texts
from ...sentences.wording import joined
from ...store.view import JobView
from ..ranks.members import host_of, nodes_of, world_of

LOOPBACK = ("127.", "[::1]", "::1", "localhost")
SENT, RECEIVED = "tcp_sent_bytes", "tcp_received_bytes"
PORTS = ("nic_sent_bytes", "nic_received_bytes")  # of a node's interfaces, and of its ports for RDMA
OTHER = "other"  # peers beyond those that an agent names


class _Bytes(NamedTuple):
    """TCP bytes by peer: on the same node, ranks elsewhere, and others."""

    near: float = 0.0
    far: float = 0.0
    others: float = 0.0

    @property
    def total(self) -> float:
        return sum(self)


class _Team(NamedTuple):
    """What ranks on one node have in common that take part in the same collectives."""

    host: str
    role: str
    world: int


class Peers:
    """Where the ranks of a job are and how much they exchanged with whom, looked up once."""

    def __init__(self, view: JobView) -> None:
        self._hosts = {number: host_of(view, number) for number in view.ranks}
        self._several = len({view.machines[node].host for node in nodes_of(view)}) > 1
        self._ranks_on: dict[str, list[int]] = {}
        for number, host in self._hosts.items():
            self._ranks_on.setdefault(host, []).append(number)
        self._teams = _teams(view, self._hosts)
        self._mates = Counter(self._teams.values())
        self._tcp = _tcp_bytes(view, self._hosts)
        self._ports = _rdma_bytes(view)

    def local(self, numbers: Collection[int]) -> LocalShare:
        """Shares, over the whole job, of the TCP bytes of these ranks. Of a job on one host nothing is left
        out: there the ceiling is that of the host to itself."""
        if not self._several:
            return LocalShare()
        sent, received = self._moved(numbers, SENT), self._moved(numbers, RECEIVED)
        if not sent.total or not received.total:
            shared = any(len(self._ranks_on[self._hosts[number]]) > 1 for number in numbers)
            return LocalShare(note=texts.LOCAL_UNKNOWN if shared else "")
        return LocalShare(sent.near / sent.total, received.near / received.total)

    def among_ranks(self, numbers: Collection[int]) -> LocalShare:
        """As `local`; what they exchange with others than ranks is left out too, where ranks are known by
        name."""
        found = self.local(numbers)
        sent, received = self._moved(numbers, SENT), self._moved(numbers, RECEIVED)
        if not all(moved.far if self._several else moved.near for moved in (sent, received)):
            return found._replace(note=joined(found.note, texts.OTHERS_INCLUDED))
        return LocalShare(
            found.sent + sent.others / sent.total,
            found.received + received.others / received.total,
            what=texts.STAYED_OR_OTHERS if self._several else texts.OTHERS,
        )

    def layout(self, numbers: Collection[int]) -> Layout:
        """How those lie on nodes who take part in collectives with these ranks, which are of one node."""
        known = [self._teams[number] for number in numbers if number in self._teams]
        team = max(known, key=lambda team: team.world, default=_Team("", "", 0))
        mates = max(1, self._mates[team])
        # Whether the ports for RDMA of a node carried more while the job ran than TCP of all its ranks.
        rdma = False
        for host in {self._hosts[number] for number in numbers}:
            tcp = max(self._moved(self._ranks_on[host], metric).total for metric in (SENT, RECEIVED))
            rdma = rdma or max(self._ports.get((host, name), 0.0) for name in PORTS) > tcp
        return Layout(
            team.world,
            mates,
            alone=not self._several and team.world <= mates,
            by_peer=self._several and not self.local(numbers).note,
            rdma=rdma,
        )

    def _moved(self, numbers: Iterable[int], metric: str) -> _Bytes:
        each = [self._tcp.get((number, metric), _Bytes()) for number in numbers]
        return _Bytes(*map(sum, zip(*each, strict=True)))


def _teams(view: JobView, hosts: Mapping[int, str]) -> dict[int, _Team]:
    """Of ranks that know of how many they are."""
    found = {}
    for number, key in view.ranks.items():
        world = world_of(view, number)
        if world:
            found[number] = _Team(hosts[number], key.role, world)
    return found


def _tcp_bytes(view: JobView, hosts: Mapping[int, str]) -> dict[tuple[int, str], _Bytes]:
    """(rank, metric) -> its bytes by peer."""
    home = {f"{key.role}:{key.index}": hosts[number] for number, key in view.ranks.items()}
    found: dict[tuple[int, str], _Bytes] = {}
    for part in view.parts:
        if part.metric.name not in (SENT, RECEIVED) or not part.instance or part.rank not in hosts:
            continue
        near, far, others = found.get((part.rank, part.metric.name), _Bytes())
        grown = part.grown or 0.0
        if home.get(part.instance) == hosts[part.rank] or part.instance.startswith(LOOPBACK):
            near += grown
        elif part.instance in home or part.instance == OTHER:
            far += grown
        else:
            others += grown
        found[part.rank, part.metric.name] = _Bytes(near, far, others)
    return found


def _rdma_bytes(view: JobView) -> dict[tuple[str, str], float]:
    """(host, metric) -> bytes of all its ports for RDMA: these are named "CARD:NUMBER"."""
    found: dict[tuple[str, str], float] = {}
    for part in view.parts:
        if part.rank == NODE_RANK and part.metric.name in PORTS and ":" in part.instance:
            key = (view.machines[part.node].host, part.metric.name)
            found[key] = found.get(key, 0.0) + (part.grown or 0.0)
    return found
