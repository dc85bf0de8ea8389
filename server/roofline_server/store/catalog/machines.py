"""Machines over time: what agents reported of theirs, kept in the catalog, and what jobs are compared
with."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ...records import RECORDING, Incarnation, Lifetime, Machine, NodeKey
from .allowances import Allowances
from .catalog import Catalog
from .clocks import Clocks
from .machine_versions import MachineState, MachineUse, next_state, used

log = logging.getLogger(__name__)

# A source that comes and goes, or an agent that says something else each time, must not fill the catalog.
MAX_STATES, MAX_CHANGES = 64, 256  # of one version, of an agent in a day

Lifetimes = Mapping[Incarnation, Lifetime]


class MachineVersion(NamedTuple):
    """What was true of an agent's machine for a while, as last reported; until_ns 0: it still holds."""

    agent: str
    version: int
    since_ns: int
    until_ns: int
    machine: Machine
    jobs: list[str]  # that are reported against it
    connected: bool = False  # a stream of its agent is open


class Machines:
    """What agents report of their machines. Thread-safe."""

    def __init__(
        self, catalog: Catalog, nodes: Mapping[NodeKey, int], began: Callable[[int], int | None]
    ) -> None:
        """Takes over what a catalog without versions knows: what each boot reported last, since the first
        time that a rank was reported there (`began`, by node)."""
        self._catalog = catalog
        self._allowances = Allowances()
        self._lock = threading.Lock()
        # A lock of its own, never held over I/O: the event loop counts streams while a state is written.
        self._streams_lock = threading.Lock()
        self._connected: Counter[str] = Counter()
        self._states = catalog.machine_states()
        self._nodes = {node: key for key, node in nodes.items()}
        known = catalog.machines()
        new = [key for key in nodes if key.agent not in self._states]
        for key in sorted(new, key=lambda key: nodes[key]):
            since_ns = (began(nodes[key]) or 0) if key.agent in self._states else 0
            self.add_reports([(key, nodes[key], known[nodes[key]])], since_ns)

    def add_reports(self, reports: Sequence[tuple[NodeKey, int, Machine]], now_ns: int) -> None:
        """Agents report this of their machines."""
        with self._lock:
            changed: dict[str, list[MachineState]] = {}
            kept: list[tuple[str, MachineState, bool]] = []
            for key, _, machine in reports:
                states = changed.get(key.agent, self._states.get(key.agent, []))
                state = next_state(states[-1] if states else None, machine, now_ns)
                if state is not None:
                    replaces = self._replaces(key.agent, states, state)
                    kept.append((key.agent, state, replaces))
                    # A new list: `versions` reads the old one without the lock.
                    changed[key.agent] = [*(states[:-1] if replaces else states), state]
            if kept:
                self._catalog.add_machine_states(kept)
            self._nodes.update({node: key for key, node, _ in reports})
            self._states.update(changed)
            for key, _, _ in reports:
                self._states.setdefault(key.agent, [])

    def _replaces(self, agent: str, states: Sequence[MachineState], new: MachineState) -> bool:
        """Whether a new state takes the place of the last one: there are too many for both to stay."""
        if sum(1 for state in states if state.version == new.version) >= MAX_STATES:
            return True
        if not states or self._allowances.take(agent, MAX_CHANGES):
            return False
        log.warning(
            "agent %s: its machine has changed more than %d times within a day; only the last change is kept",
            *(agent[:8], MAX_CHANGES),
        )
        return True

    def stream_opened(self, agent: str) -> None:
        with self._streams_lock:
            self._connected[agent] += 1

    def stream_closed(self, agent: str) -> None:
        with self._streams_lock:
            self._connected[agent] -= 1

    def used(self, lifetimes: Lifetimes, clocks: Clocks) -> dict[int, MachineUse]:
        """Node -> the machine that a job of these processes is reported against."""
        whole: dict[int, tuple[int, int]] = {}
        for who, lifetime in lifetimes.items():
            first, last = whole.get(who.node, (lifetime.first_ns, lifetime.last_ns))
            whole[who.node] = (min(first, lifetime.first_ns), max(last, lifetime.last_ns))
        found = {}
        for node, extent in whole.items():
            key = self._nodes[node]
            states = self._states[key.agent]
            if key.boot == RECORDING:
                # A file has no time of its own in which it could be another machine.
                found[node] = MachineUse(states[-1].version, states[-1].machine)
            else:
                begin_ns, end_ns = clocks[node].to_server(np.array(extent, np.int64)).tolist()
                found[node] = used(states, begin_ns, end_ns)
        return found

    def versions(self, jobs: Mapping[str, Lifetimes], clocks: Clocks) -> list[MachineVersion]:
        """All versions of all machines, by host, the newest first. jobs: the processes of each job."""
        users: dict[tuple[str, int], list[str]] = {}
        for job in sorted(jobs):
            for node, use in self.used(jobs[job], clocks).items():
                mine = users.setdefault((self._nodes[node].agent, use.version), [])
                if job not in mine:
                    mine.append(job)
        found: list[MachineVersion] = []
        for agent, states in list(self._states.items()):
            groups = [list(some) for _, some in groupby(states, key=lambda state: state.version)]
            ends = [*(group[0].since_ns for group in groups[1:]), 0]
            for group, until_ns in zip(groups, ends, strict=True):
                number, since_ns, machine = group[-1].version, group[0].since_ns, group[-1].machine
                connected = self._connected[agent] > 0 and not until_ns
                users_of = users.get((agent, number), [])
                found.append(MachineVersion(agent, number, since_ns, until_ns, machine, users_of, connected))
        found = self._without_files(self._end_replaced(found))
        return sorted(found, key=lambda v: (v.machine.host, v.until_ns > 0, -v.since_ns, -v.version, v.agent))

    def _without_files(self, versions: list[MachineVersion]) -> list[MachineVersion]:
        """Without imported files, which are no machines: but those that bring ceilings, and of a host that
        nothing else is known of one, the newest."""
        recorded = {key.agent for key in self._nodes.values() if key.boot == RECORDING}
        found = [v for v in versions if v.agent not in recorded or v.machine.ceilings]
        hosts = {v.machine.host for v in found}
        others: dict[str, list[MachineVersion]] = {}
        for v in versions:
            if v.machine.host not in hosts:
                others.setdefault(v.machine.host, []).append(v)
        for files in others.values():
            newest = max(files, key=lambda v: (v.since_ns, v.agent))
            jobs = sorted({job for v in files for job in v.jobs})
            found.append(newest._replace(since_ns=min(v.since_ns for v in files), jobs=jobs))
        return found

    def _end_replaced(self, versions: list[MachineVersion]) -> list[MachineVersion]:
        """The version of an agent that has gone ends where another agent has come to its host since."""
        recorded = {key.agent for key in self._nodes.values() if key.boot == RECORDING}
        firsts = [v for v in versions if v.version == 1 and v.agent not in recorded]
        found = []
        for v in versions:
            later = [
                f.since_ns
                for f in firsts
                if f.machine.host == v.machine.host and f.agent != v.agent and f.since_ns > v.since_ns
            ]
            gone = not (v.until_ns or v.connected or v.agent in recorded)
            found.append(v._replace(until_ns=min(later)) if gone and later else v)
        return found
