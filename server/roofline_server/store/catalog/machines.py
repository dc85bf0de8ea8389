"""Machines over time: what agents said of their own, kept in the catalog, and what jobs are held against."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ...records import RECORDING, Incarnation, Machine, NodeKey
from .catalog import Catalog, Life
from .clocks import Clocks
from .machine_versions import Saying, Use, follows, used

MAX_SAYINGS = 64  # of one version; a source that comes and goes shall not fill the catalog

Lives = Mapping[Incarnation, Life]


class Version(NamedTuple):
    """What was true of an agent's machine for a while, as it was last said; until_ns 0: it holds."""

    agent: str
    version: int
    since_ns: int
    until_ns: int
    machine: Machine
    jobs: list[str]  # that are reported against it
    connected: bool = False  # a stream of its agent is open


class Machines:
    """What agents say of their machines. Thread-safe."""

    def __init__(
        self, catalog: Catalog, nodes: Mapping[NodeKey, int], began: Callable[[int], int | None]
    ) -> None:
        """Takes over what a catalog without versions knows: each boot's last word, since the first that was
        heard of a rank there (`began`, by node)."""
        self._catalog = catalog
        self._lock = threading.Lock()
        # Of its own and never held over I/O: the event loop counts streams while a saying is written.
        self._streams_lock = threading.Lock()
        self._connected: Counter[str] = Counter()
        self._sayings = catalog.sayings()
        self._nodes = {number: key for key, number in nodes.items()}
        known = catalog.machines()
        new = [key for key in nodes if key.agent not in self._sayings]
        for key in sorted(new, key=lambda key: nodes[key]):
            since_ns = (began(nodes[key]) or 0) if key.agent in self._sayings else 0
            self.heard(key, nodes[key], known[nodes[key]], since_ns)

    def heard(self, key: NodeKey, node: int, machine: Machine, now_ns: int) -> None:
        """An agent says this of its machine."""
        with self._lock:
            self._nodes[node] = key
            said = self._sayings.setdefault(key.agent, [])
            saying = follows(said[-1] if said else None, machine, now_ns)
            if saying is None:
                return
            same = sum(1 for s in said if s.version == saying.version)
            replaces = same >= MAX_SAYINGS
            self._catalog.add_saying(key.agent, saying, replaces)
            self._sayings[key.agent] = [*(said[:-1] if replaces else said), saying]

    def came(self, agent: str) -> None:
        """A stream of the agent has opened."""
        with self._streams_lock:
            self._connected[agent] += 1

    def left(self, agent: str) -> None:
        """A stream of the agent has ended."""
        with self._streams_lock:
            self._connected[agent] -= 1

    def used(self, lives: Lives, clocks: Clocks) -> dict[int, Use]:
        """Node -> the machine that a job with these lives is reported against."""
        whole: dict[int, tuple[int, int]] = {}
        for who, life in lives.items():
            first, last = whole.get(who.node, (life.first_ns, life.last_ns))
            whole[who.node] = (min(first, life.first_ns), max(last, life.last_ns))
        return {node: self._used(node, *extent, clocks) for node, extent in whole.items()}

    def _used(self, node: int, first_ns: int, last_ns: int, clocks: Clocks) -> Use:
        key = self._nodes[node]
        said = self._sayings[key.agent]
        if key.boot == RECORDING:
            # A file has no time of its own in which it could be another machine.
            return Use(said[-1].version, said[-1].machine)
        begin_ns, end_ns = clocks[node].to_server(np.array([first_ns, last_ns], np.int64)).tolist()
        return used(said, begin_ns, end_ns)

    def versions(self, jobs: Mapping[str, Lives], clocks: Clocks) -> list[Version]:
        """All versions of all machines, by host, of each the newest first. jobs: the lives of each job."""
        users: dict[tuple[str, int], list[str]] = {}
        for job in sorted(jobs):
            for node, use in self.used(jobs[job], clocks).items():
                mine = users.setdefault((self._nodes[node].agent, use.version), [])
                mine += [job] if job not in mine else []
        found = [
            Version(
                agent, one.version, one.since_ns, until_ns, one.machine, users.get((agent, one.version), [])
            )
            for agent, said in list(self._sayings.items())
            for one, until_ns in _versions(said)
        ]
        found = self._replaced([v._replace(connected=self._speaks(v)) for v in found])
        return sorted(found, key=lambda v: (v.machine.host, v.until_ns > 0, -v.since_ns, -v.version, v.agent))

    def _speaks(self, version: Version) -> bool:
        return self._connected[version.agent] > 0 and not version.until_ns

    def _replaced(self, versions: list[Version]) -> list[Version]:
        """An agent that has gone holds no longer where another has come to its host since."""
        recorded = {key.agent for key in self._nodes.values() if key.boot == RECORDING}
        firsts = [v for v in versions if v.version == 1 and v.agent not in recorded]
        replaced = []
        for v in versions:
            later = [
                f.since_ns
                for f in firsts
                if f.machine.host == v.machine.host and f.agent != v.agent and f.since_ns > v.since_ns
            ]
            gone = not (v.until_ns or v.connected or v.agent in recorded)
            replaced.append(v._replace(until_ns=min(later)) if gone and later else v)
        return replaced


def _versions(said: Sequence[Saying]) -> Iterator[tuple[Saying, int]]:
    """Each version of an agent's sayings, as last described, since it began, and when it ended (0: never)."""
    groups = [list(some) for _, some in groupby(said, key=lambda s: s.version)]
    ends = [some[0].since_ns for some in groups[1:]]
    for some, until_ns in zip(groups, [*ends, 0], strict=True):
        yield some[-1]._replace(since_ns=some[0].since_ns), until_ns
