"""The tail: batches that are durable and not sealed yet, decoded, and who lives by what they say."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ...ingest.decode import Decoded
from ...records import Frame, Incarnation, RankKey
from ..catalog.catalog import Life
from ..catalog.process_lifetimes import LifeBook
from .inbox import Entry


class TailBatch(NamedTuple):
    """A batch that is durable but not sealed."""

    id: int
    bytes: int
    decoded: Decoded


class Unsealed(NamedTuple):
    """The tail at one moment."""

    batches: list[TailBatch]
    lives: dict[Incarnation, Life]
    reported: dict[int, int]  # node -> node time it has reported up to


class Tail:
    """Whoever holds `lock` sees a batch either here or in the catalog: never in both, never in none."""

    def __init__(self, lives: LifeBook) -> None:
        self.lock = threading.RLock()
        self.bytes = 0  # of its batches, as they came
        self._lives = lives
        self._batches: list[TailBatch] = []

    def add(self, entry: Entry, decoded: Decoded) -> None:
        """Take a batch; they come in order of their ids."""
        with self.lock:
            self._batches.append(TailBatch(entry.id, len(entry.data), decoded))
            self.bytes += len(entry.data)
            self._lives.take(entry.node, decoded)

    def now(self) -> Unsealed:
        with self.lock:
            return Unsealed(list(self._batches), self._lives.now(), dict(self._lives.through))

    def forget(self, batches: Iterable[TailBatch]) -> None:
        """These are sealed."""
        with self.lock:
            sealed = {batch.id: batch.bytes for batch in batches}
            self._batches = [batch for batch in self._batches if batch.id not in sealed]
            self.bytes -= sum(sealed.values())

    def frames(self, job: str) -> list[Frame]:
        """All frames of a job."""
        with self.lock:
            return [frame for batch in self._batches for frame in batch.decoded.frames if frame.job == job]

    def heard(self, ranks: Mapping[int, RankKey]) -> dict[int, RankKey]:
        """Those ranks, by their numbers, of which a batch that was kept spoke."""
        return {number: key for number, key in ranks.items() if self._lives.has_heard(number)}

    def lives_of(self, ranks: Collection[int]) -> dict[Incarnation, Life]:
        """The lives of some ranks, by their numbers."""
        with self.lock:
            return self._lives.of(ranks)

    def members(self, ranks: Collection[int]) -> list[Incarnation]:
        """Who ever was one of these ranks."""
        with self.lock:
            return self._lives.members(ranks)
