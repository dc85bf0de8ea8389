"""The tail: batches that are durable and not sealed yet, decoded, and the processes that they report."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...records import DecodedBatch, Frame, Incarnation, Lifetime, RankKey, memory_of
from ..catalog.process_lifetimes import ProcessLifetimes
from .entries import Entry


class TailBatch(NamedTuple):
    """A batch that is durable but not sealed."""

    id: int
    node: int
    bytes: int  # of memory
    decoded: DecodedBatch


class Unsealed(NamedTuple):
    """The tail at one moment."""

    batches: list[TailBatch]
    process_lifetimes: dict[Incarnation, Lifetime]
    reported: dict[int, int]  # node -> node time up to which it has reported everything, as far as it says


class Tail:
    """Whoever holds `lock` sees a batch either here or in the catalog: never in both, never in none."""

    def __init__(self, processes: ProcessLifetimes) -> None:
        self.lock = threading.RLock()
        self.bytes = 0  # of memory that its batches take
        self.bytes_of: Counter[int] = Counter()  # likewise, by node
        self._processes = processes
        self._missing: dict[int, tuple[int, int]] = {}  # node -> node time from which to which batches follow
        self._batches: list[TailBatch] = []
        self._by_job: dict[str, list[TailBatch]] = {}  # those that hold something of a job
        self._newest: dict[str, int] = {}  # job -> id of the newest batch that does, also of one sealed since

    def add(self, entry: Entry, decoded: DecodedBatch) -> None:
        """Take a batch; they come in order of their ids."""
        with self.lock:
            size = memory_of(decoded.frames)
            self._keep(TailBatch(entry.id, entry.node, size, decoded))
            self.bytes += size
            self.bytes_of[entry.node] += size
            self._processes.add(entry.node, decoded)
            begin_ns, end_ns = self._missing.get(entry.node, (0, 0))
            if begin_ns <= decoded.begin_ns < end_ns:  # the oldest come first
                self._missing[entry.node] = decoded.end_ns, end_ns

    def _keep(self, batch: TailBatch) -> None:
        self._batches.append(batch)
        for job in {frame.job for frame in batch.decoded.frames}:
            self._by_job.setdefault(job, []).append(batch)
            self._newest[job] = max(batch.id, self._newest.get(job, 0))

    def newest_of(self, job: str) -> int:
        """The id of the newest batch that holds something of a job; 0: none since this tail was made."""
        return self._newest.get(job, 0)

    def expect(self, node: int, begin_ns: int, end_ns: int) -> None:
        """A node will send what lies between these node times, along with what is younger; none: nothing
        more."""
        with self.lock:
            self._missing.pop(node, None)
            if begin_ns < end_ns:
                self._missing[node] = begin_ns, end_ns

    def now(self) -> Unsealed:
        with self.lock:
            reported = dict(self._processes.through)
            for node, (begin_ns, end_ns) in self._missing.items():
                if node in reported and begin_ns < end_ns:
                    reported[node] = min(begin_ns, reported[node])
            return Unsealed(list(self._batches), self._processes.now(), reported)

    def forget(self, batches: Iterable[TailBatch]) -> None:
        """These are sealed."""
        with self.lock:
            sealed = {batch.id: batch for batch in batches}
            left = [batch for batch in self._batches if batch.id not in sealed]
            self._batches, self._by_job = [], {}
            for batch in left:
                self._keep(batch)
            for batch in sealed.values():
                self.bytes -= batch.bytes
                self.bytes_of[batch.node] -= batch.bytes
                if not self.bytes_of[batch.node]:
                    del self.bytes_of[batch.node]

    def jobs(self) -> set[str]:
        """The jobs of which something is not sealed yet."""
        with self.lock:
            return set(self._by_job)

    def of_job(self, job: str, nodes: Collection[int] | None = None) -> list[TailBatch]:
        """The batches that hold something of a job, with nothing else in them; nodes: of these alone."""
        with self.lock:
            batches = list(self._by_job.get(job, ()))
        found = []
        for batch in batches:
            if nodes is None or batch.node in nodes:
                frames = [frame for frame in batch.decoded.frames if frame.job == job]
                found.append(batch._replace(decoded=batch.decoded._replace(frames=frames)))
        return found

    def reported(self, ranks: Mapping[int, RankKey]) -> dict[int, RankKey]:
        """The ranks, of these, that are in a batch that was kept."""
        return {rank: key for rank, key in ranks.items() if self._processes.has_rank(rank)}

    def lifetimes_of(self, ranks: Collection[int]) -> dict[Incarnation, Lifetime]:
        """The lifetimes of the processes of some ranks."""
        with self.lock:
            return self._processes.of(ranks)

    def members(self, ranks: Collection[int]) -> list[Incarnation]:
        """All processes that ever were one of these ranks."""
        with self.lock:
            return self._processes.members(ranks)


def stretches(batches: Sequence[TailBatch]) -> list[list[TailBatch]]:
    """The batches in as many parts as needed for those of a node to follow each other without a hole in each
    part: what comes later than younger data lies in none of them. Else in order of their ids."""
    ends: dict[int, tuple[int, int]] = {}  # node -> of its part: number, end
    part: dict[int, int] = {}
    for batch in sorted(batches, key=lambda batch: batch.decoded.begin_ns):
        number, end_ns = ends.get(batch.node, (0, batch.decoded.begin_ns))
        number += batch.decoded.begin_ns > end_ns
        ends[batch.node] = number, max(end_ns, batch.decoded.end_ns)
        part[batch.id] = number
    found: list[list[TailBatch]] = [[] for _ in range(max(part.values(), default=-1) + 1)]
    for batch in batches:
        found[part[batch.id]].append(batch)
    return found


def begins(batches: Iterable[TailBatch]) -> dict[str, dict[int, int]]:
    """Job -> node -> node time at which the oldest batch begins that has something of both."""
    found: dict[str, dict[int, int]] = {}
    for batch in batches:
        for job in {frame.job for frame in batch.decoded.frames}:
            nodes = found.setdefault(job, {})
            nodes[batch.node] = min(batch.decoded.begin_ns, nodes.get(batch.node, batch.decoded.begin_ns))
    return found


def frames_of(batches: Iterable[TailBatch]) -> list[Frame]:
    """All that they hold."""
    return [frame for batch in batches for frame in batch.decoded.frames]
