"""Batches that wait for the disk, taken from the streams in turns and by their bytes: one with much to send
hardly delays the others.

Bounded in bytes of memory, for each stream and for all. A stream asks for room before its batch is decoded,
which takes more memory than the message; a stream that gets none is not read, and so its agent waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
S = TypeVar("S", bound=Hashable)

# Of the bytes, of which a stream holds one part at most; if it holds nothing, it gets whatever room is left.
PARTS = 8


class Queued(NamedTuple, Generic[S, T]):
    """A batch that waits."""

    stream: S
    item: T
    bytes: int


class FairQueue(Generic[S, T]):
    """Used in one event loop."""

    def __init__(self, most_bytes: Callable[[], int]) -> None:
        self._most_bytes = most_bytes
        self._waiting: dict[S, deque[Queued[S, T]]] = {}  # in the order of their turns
        self._held: Counter[S] = Counter()  # bytes of each stream, waiting and being committed
        self._bytes = 0
        self._count = 0  # of batches, likewise
        self._large_waited = False  # while small batches were taken
        self._arrived = asyncio.Event()  # something waits
        self._changed = asyncio.Condition()  # there is more room

    def __len__(self) -> int:
        """Batches that wait or are being committed."""
        return self._count

    @property
    def bytes(self) -> int:
        """What they and those that have room take."""
        return self._bytes

    async def admit(self, stream: S, size: int) -> None:
        """Wait until there is room for the stream, and take it: `put` or `release` follows."""
        if self._has_room(stream):
            self._hold(stream, size)
            return
        async with self._changed:
            await self._changed.wait_for(lambda: self._has_room(stream))
            self._hold(stream, size)

    def _has_room(self, stream: S) -> bool:
        most = self._most_bytes()
        return self._bytes < most and self._held[stream] < max(1, most // PARTS)

    def _hold(self, stream: S, size: int) -> None:
        self._held[stream] += size
        self._bytes += size
        if self._held[stream] <= 0:
            del self._held[stream]

    def release(self, stream: S, size: int) -> None:
        """Give back the room that `admit` took, as the batch is not to be kept."""
        self._hold(stream, -size)

    def put(self, stream: S, item: T, admitted: int, size: int) -> None:
        """Queue a batch. admitted: what `admit` was asked for; size: what it takes."""
        self._hold(stream, size - admitted)
        self._waiting.setdefault(stream, deque()).append(Queued(stream, item, size))
        self._count += 1
        self._arrived.set()

    async def wait(self) -> None:
        """Until something waits."""
        await self._arrived.wait()

    async def wait_for_more(self, seconds: float) -> None:
        """Until something else comes, at most so long."""
        self._arrived.clear()
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(self._arrived.wait(), seconds)
        if self._waiting:
            self._arrived.set()

    async def wake(self) -> None:
        """Let those look again that wait for room; not at each batch, for they may be thousands."""
        async with self._changed:
            self._changed.notify_all()

    def take(
        self,
        most: int,
        most_bytes: int,
        most_of_one: int,
        allowed: Callable[[S], bool] = lambda stream: True,
    ) -> list[Queued[S, T]]:
        """Batches of the streams that are allowed to, one of each in turns, the oldest of a stream first; at
        least one, if there is one. `done` follows.

        most_of_one: bytes of one stream. Larger batches are taken in groups of their own, of half as many
        bytes or one batch, in turn with those of all that are small: who sends little waits for one at most.
        """
        turns = [stream for stream in self._waiting if allowed(stream)]
        large = [stream for stream in turns if self._waiting[stream][0].bytes > most_of_one]
        if large and (self._large_waited or len(large) == len(turns)):
            self._large_waited = False
            found = self._take_large(large, most_bytes // 2)
        else:
            self._large_waited = bool(large)
            found = self._take_small(turns, most, most_bytes, most_of_one)
        if not self._waiting:
            self._arrived.clear()
        return found

    def _take_small(
        self, streams: Iterable[S], most: int, most_bytes: int, most_of_one: int
    ) -> list[Queued[S, T]]:
        found: list[Queued[S, T]] = []
        size, size_of = 0, Counter[S]()
        turns = deque(streams)
        while turns and len(found) < most and size < most_bytes:
            stream = turns.popleft()
            if size_of[stream] + self._waiting[stream][0].bytes > most_of_one:
                continue
            one = self._next_of(stream)
            found.append(one)
            size += one.bytes
            size_of[stream] += one.bytes
            if stream in self._waiting:
                turns.append(stream)
        return found

    def _take_large(self, streams: Iterable[S], most_bytes: int) -> list[Queued[S, T]]:
        found: list[Queued[S, T]] = []
        size = 0
        for stream in streams:
            size += self._waiting[stream][0].bytes
            if found and size > most_bytes:
                break
            found.append(self._next_of(stream))
        return found

    def _next_of(self, stream: S) -> Queued[S, T]:
        """The stream's oldest batch; its next one comes after those of all others."""
        mine = self._waiting.pop(stream)
        one = mine.popleft()
        if mine:
            self._waiting[stream] = mine
        return one

    async def done(self, taken: list[Queued[S, T]]) -> None:
        """These are durable, and take no room any more."""
        for one in taken:
            self._hold(one.stream, -one.bytes)
        self._count -= len(taken)
        await self.wake()

    async def drain(self) -> None:
        """Wait until nothing waits and nothing is being committed."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._count == 0)
