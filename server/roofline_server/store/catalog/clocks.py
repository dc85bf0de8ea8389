"""What is known of every node's clock: exchanges, durable in the catalog, and arrivals of batches.

An exchange bounds a node's offset from both sides. A batch that arrives bounds it from one: it cannot have
been sent before its end. The least of those offsets stands in for a node that never answered a ping.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from roofline.limits import MAX_TIME_NS

from ...clock import NodeClock, needed
from ...clock_samples import FIRST_SAMPLES, best, thin
from ...records import ClockSample, Incarnation, Ints, Lifetime, Table
from ...server_time import ServerTime, boot
from .catalog import Catalog
from .name_ids import NameIds

NO_SAMPLES = np.empty((0, 3), np.int64)
MOST_KEPT = 1 << 18  # samples of jobs that are over that stay in memory: 6 MB
NEWEST = 8  # exchanges of a node of which the best says about how far off it is


class ClockFacts(NamedTuple):
    """What a node's clock is made of: rows of (node_ns, offset_ns, rtt_ns), and its offset by arrival."""

    samples: Ints
    arrival_ns: int | None


class Clocks(dict[int, NodeClock]):
    """The clock of each node, made when it is first asked for."""

    def __init__(self, make: Callable[[int], NodeClock]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, node: int) -> NodeClock:
        clock = self[node] = self._make(node)
        return clock


class ClockRegistry:
    """Collects what bounds the nodes' offsets and makes clocks of it. Thread-safe."""

    def __init__(self, catalog: Catalog, name_ids: NameIds) -> None:
        self._catalog, self._name_ids = catalog, name_ids
        # The first is never held while the catalog is written: batches that come wait for it.
        self._lock, self._keeping = threading.Lock(), threading.Lock()
        # In the catalog too; rows of (node_ns, offset_ns, rtt_ns).
        self._kept = {node: _rows(samples) for node, samples in catalog.clock_samples().items()}
        self._fresh: dict[int, list[ClockSample]] = {}  # all that came since
        self._arrival = catalog.arrivals()
        self._new_arrivals: dict[int, int] = {}
        self._added: list[tuple[int, ClockSample]] = []  # and not yet in the catalog
        self._dropped: list[tuple[int, int]] = []
        self._made: dict[int, NodeClock] = {}  # of all that is known now
        self._settled = catalog.settled()
        # What jobs that are over keep, in the catalog too: the one asked for last at the end.
        self._of_job: dict[str, dict[int, Ints]] = {}

    def add_sample(self, node: int, sample: ClockSample) -> None:
        """Take an exchange of a node; if it improves the clock, it becomes durable with the next `save`.

        One whose times cannot be is ignored: it would spoil every report.
        """
        largest = max(abs(sample.node_ns), abs(sample.offset_ns))
        if not (largest < MAX_TIME_NS and 0 <= sample.rtt_ns < MAX_TIME_NS):
            return
        with self._lock:
            self._fresh.setdefault(node, []).append(sample)
            self._made.pop(node, None)

    def add_arrival(self, node: int, end_ns: int, received_ns: int) -> None:
        """A batch that ended at end_ns of the node's time arrived at received_ns of the server's."""
        offset = received_ns - end_ns
        if offset < self._arrival.get(node, MAX_TIME_NS):
            with self._lock:
                self._arrival[node] = self._new_arrivals[node] = offset
                if node not in self._kept and node not in self._fresh:
                    self._made.pop(node, None)

    def save(self) -> None:
        """Make durable what is new and improves a clock, and thin out what is old."""
        with self._lock:
            fresh, self._fresh = self._fresh, {}
            arrivals, self._new_arrivals = self._new_arrivals, {}
            for node, samples in fresh.items():
                before, new = self._kept.get(node, NO_SAMPLES), _rows(samples)
                if len(before) >= FIRST_SAMPLES:
                    new = best(new)
                whole = np.concatenate([before, new])
                kept = self._kept[node] = thin(whole)
                self._made.pop(node, None)
                self._added += [(node, ClockSample(*row)) for row in new.tolist()]
                gone = set(whole[:, 0].tolist()) - set(kept[:, 0].tolist())
                self._dropped += [(node, node_ns) for node_ns in sorted(gone)]
        try:
            self._catalog.put_clocks(self._added, self._dropped, arrivals)
        except Exception:
            with self._lock:  # newer ones are less
                self._new_arrivals = {**arrivals, **self._new_arrivals}
            raise
        self._added, self._dropped = [], []

    def settle(self, job: str, after: Mapping[int, float]) -> None:
        """Step windows of a job are about to be stored for good; after: see `settled_after`."""
        if after != self.settled(job):
            self._catalog.put_settled(job, after)
            self._settled[job] = dict(after)

    def settled(self, job: str) -> Mapping[int, float]:
        """Node -> how far wrong its times can be in a job's stored step windows, ns; infinite: unknown."""
        return self._settled.get(job, {})

    def knows(self, node: int) -> bool:
        """Whether anything is known of a node's clock."""
        return self.offset_about(node) is not None

    def offset_about(self, node: int) -> int | None:
        """By how much the server's time is ahead of a node's now, by one of its newest exchanges: a clock is
        exact, and takes a while to make. None: nothing is known."""
        if node in self._name_ids.recordings:
            return 0
        with self._lock:
            known = self._fresh.get(node, [])[-NEWEST:]
            if not known:
                known = [ClockSample(*row) for row in self._kept.get(node, NO_SAMPLES)[-NEWEST:].tolist()]
            if not known:
                return self._arrival.get(node)
        return min(known, key=lambda sample: sample.rtt_ns).offset_ns

    def clocks(self) -> Clocks:
        """The clocks of all nodes, as they are known now."""
        return Clocks(self.clock)

    def clock(self, node: int) -> NodeClock:
        """The clock of one node."""
        with self._lock:
            made = self._made.get(node)
            if made is None:
                made = self._made[node] = self._make(node)
            return made

    def of_job(self, job: str, lifetimes: Mapping[Incarnation, Lifetime]) -> Clocks:
        """The clocks that a job of these processes is reported with.

        Once all of them have ended these stay as they are: a clock that is known better later would change
        the numbers of a job that is over, by next to nothing.
        """
        found = self.clocks()
        for node, kept in self.kept_of_job(job, lifetimes).items():
            found[node] = NodeClock(kept)
        return found

    def kept_of_job(self, job: str, lifetimes: Mapping[Incarnation, Lifetime]) -> dict[int, Ints]:
        """Node -> what a job that is over keeps of its clock, as rows of (node_ns, offset_ns, rtt_ns)."""
        if not lifetimes or not all(life.exited for life in lifetimes.values()):
            return {}
        extents: dict[int, tuple[int, int]] = {}
        for who, life in lifetimes.items():
            begin_ns, end_ns = extents.get(who.node, (life.first_ns, life.last_ns))
            extents[who.node] = min(begin_ns, life.first_ns), max(end_ns, life.last_ns)
        with self._keeping:
            of_job = self._of_job.pop(job, None)
            if of_job is None:
                of_job = {node: samples for (_, node), samples in self._catalog.job_clocks(job).items()}
            self._of_job[job] = of_job
            for node in extents.keys() - self._name_ids.recordings:
                self._keep_for(job, node, *extents[node])
            self._forget_jobs()
            return {node: of_job[node] for node in extents if node in of_job}

    def known(self, node: int) -> ClockFacts:
        """What a node's clock is made of now."""
        if node in self._name_ids.recordings:
            # A recording knows nothing of the clock that it was made by: its times stand as they are.
            return ClockFacts(_rows([ClockSample(0, 0, 0)]), None)
        with self._lock:
            return self._known(node)

    def _known(self, node: int) -> ClockFacts:
        samples = [self._kept.get(node, NO_SAMPLES), _rows(self._fresh.get(node, []))]
        return ClockFacts(np.concatenate(samples), self._arrival.get(node))

    def _keep_for(self, job: str, node: int, begin_ns: int, end_ns: int) -> None:
        """Have a job that is over keep what its clock of a node needs; it had processes there from begin_ns
        to end_ns of node time."""
        with self._lock:
            known = self._known(node).samples
        kept, at = self._of_job[job].get(node), known[:, 0]
        # A job whose processes have all ended may go on: its launcher starts them again.
        lacking = (
            kept is None
            or (((at > kept[-1, 0]) & (at <= end_ns)) | ((at < kept[0, 0]) & (at >= begin_ns))).any()
        )
        if len(known) and lacking:
            new = needed(known, begin_ns, end_ns)
            self._catalog.put_job_clock(job, node, new.tolist())
            self._of_job[job][node] = new

    def _forget_jobs(self) -> None:
        """What is asked for again is read again."""
        count = sum(len(samples) for of_job in self._of_job.values() for samples in of_job.values())
        while count > MOST_KEPT and len(self._of_job) > 1:
            gone = self._of_job.pop(next(iter(self._of_job)))
            count -= sum(map(len, gone.values()))

    def _make(self, node: int) -> NodeClock:
        if node in self._name_ids.recordings:
            return NodeClock((ClockSample(0, 0, 0),))
        return NodeClock(*self._known(node))


def settled_after(
    before: Mapping[int, float] | None,
    steps: Table,
    nodes: Ints,
    clocks: Mapping[int, NodeClock],
) -> dict[int, float]:
    """Node -> how far wrong its times can be in a job's stored step windows, ns, once `steps` are among them.

    A clock known better later does not move them: what could be wrong with them stays true.
    before: of those that are stored; None: all of them are replaced. nodes: see `nodes_of`.
    """
    after = dict(before or {})
    for node in set(nodes.tolist()) - {-1}:
        mine = nodes == node
        extent = np.array([steps["begin_ns"][mine].min(), steps["end_ns"][mine].max()], np.int64)
        clock = clocks[node]
        error = clock.worst_error(*clock.to_node(extent).tolist())
        after[node] = max(after.get(node, 0.0), math.inf if error is None else error)
    return after


def moment(clock: NodeClock, node_ns: int) -> int:
    """Server time of one moment of a node's time."""
    return int(clock.to_server(np.array([node_ns], np.int64))[0])


def server_time(catalog: Catalog) -> ServerTime:
    """The time that all servers of one data directory share on this boot of this machine."""
    name = f"clock {boot()}"
    kept = catalog.state(name)
    now = ServerTime(int(kept) if kept else None)
    catalog.put_state(name, str(now.base_ns))
    return now


def _rows(samples: list[ClockSample]) -> Ints:
    rows = np.array(samples, np.int64).reshape(-1, 3)
    return rows[np.argsort(rows[:, 0], kind="stable")]
