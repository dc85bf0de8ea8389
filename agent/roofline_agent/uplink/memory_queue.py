"""Batches that wait in memory while the disk takes none: bounded, and the oldest go first."""

from __future__ import annotations

from .pending import Pending

MEMORY_BATCHES, MEMORY_BYTES = 512, 64 << 20


class MemoryQueue:
    """Batches by sequence number."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = min(limit_bytes, MEMORY_BYTES)
        self._batches: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def bytes_waiting(self) -> int:
        return sum(map(len, self._batches.values()))

    def append(self, sequence: int, data: bytes) -> int:
        """Keep a batch; how many had to go."""
        self._batches[sequence] = data
        dropped = 0
        while len(self) > MEMORY_BATCHES or self.bytes_waiting > self._limit:
            del self._batches[min(self._batches)]
            dropped += 1
        return dropped

    def oldest_first(self) -> list[Pending]:
        return [Pending(*one) for one in sorted(self._batches.items())]

    def between(self, after: int, through: int) -> list[Pending]:
        """In order, the batches above one sequence, up to another."""
        return [one for one in self.oldest_first() if after < one.sequence <= through]

    def remove(self, sequence: int) -> None:
        """Keep this batch no longer, if it is here."""
        self._batches.pop(sequence, None)

    def remove_through(self, sequence: int) -> None:
        """Keep none up to this one."""
        for held in [one for one in self._batches if one <= sequence]:
            del self._batches[held]
