"""The tail: batches that are durable and not sealed yet, decoded, and the processes that they report."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ...records import DecodedBatch, Frame, Incarnation, Lifetime, RankKey, memory_of
from ..catalog.process_lifetimes import ProcessLifetimes
from .inbox import Entry


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
    reported: dict[int, int]  # node -> node time it has reported up to


class Tail:
    """Whoever holds `lock` sees a batch either here or in the catalog: never in both, never in none."""

    def __init__(self, processes: ProcessLifetimes) -> None:
        self.lock = threading.RLock()
        self.bytes = 0  # of memory that its batches take
        self.bytes_of: Counter[int] = Counter()  # likewise, by node
        self._processes = processes
        self._batches: list[TailBatch] = []

    def add(self, entry: Entry, decoded: DecodedBatch) -> None:
        """Take a batch; they come in order of their ids."""
        with self.lock:
            size = memory_of(decoded.frames)
            self._batches.append(TailBatch(entry.id, entry.node, size, decoded))
            self.bytes += size
            self.bytes_of[entry.node] += size
            self._processes.add(entry.node, decoded)

    def now(self) -> Unsealed:
        with self.lock:
            return Unsealed(list(self._batches), self._processes.now(), dict(self._processes.through))

    def forget(self, batches: Iterable[TailBatch]) -> None:
        """These are sealed."""
        with self.lock:
            sealed = {batch.id: batch for batch in batches}
            self._batches = [batch for batch in self._batches if batch.id not in sealed]
            for batch in sealed.values():
                self.bytes -= batch.bytes
                self.bytes_of[batch.node] -= batch.bytes
                if not self.bytes_of[batch.node]:
                    del self.bytes_of[batch.node]

    def frames(self, job: str) -> list[Frame]:
        """All frames of a job."""
        with self.lock:
            return [frame for batch in self._batches for frame in batch.decoded.frames if frame.job == job]

    def reported(self, ranks: Mapping[int, RankKey]) -> dict[int, RankKey]:
        """Those of these ranks that are in a batch that was kept."""
        return {rank: key for rank, key in ranks.items() if self._processes.has_rank(rank)}

    def lifetimes_of(self, ranks: Collection[int]) -> dict[Incarnation, Lifetime]:
        """The lifetimes of the processes of some ranks."""
        with self.lock:
            return self._processes.of(ranks)

    def members(self, ranks: Collection[int]) -> list[Incarnation]:
        """All processes that ever were one of these ranks."""
        with self.lock:
            return self._processes.members(ranks)
