"""Gathers the batches of all streams, commits them in groups, and acknowledges what is durable."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from ..counts import IngestCounts
from ..records import DecodedBatch, memory_of, rows
from ..store.intake.entries import Entry
from ..store.store import Store
from .fair_queue import FairQueue
from .large_batches import LargeBatches
from .question_budget import granted
from .sampling_level import ServerLoad

log = logging.getLogger(__name__)

GROUP_BATCHES = 1024
# Of memory, as decoded.
GROUP_BYTES = 8 << 20
STREAM_BYTES = 1 << 20  # of one stream in a group; what takes more is committed in groups of its own
QUEUE_BYTES = 64 << 20
MAX_UNSEALED_BYTES = 384 << 20  # until they are sealed; a few times what a sealing waits for
DISK_RETRY_S = 1.0
RECENT_S = 60.0  # agents that cannot connect try again within 15 s
ROOM_LOOK_S = 0.05
TAKEN = (
    "another batch with this number was kept: two agents share one numbering (a copied state "
    "directory, or one put back from a backup); update the agent, or give each its own --state"
)


class Source(Hashable, Protocol):
    """Where a batch came from."""

    node: int

    def acknowledge(self, sequences: Sequence[int], hold_ms: int) -> None: ...

    def refuse(self, sequence: int, reason: str, taken: bool = False) -> None: ...


class WaitingBatch(NamedTuple):
    entry: Entry
    decoded: DecodedBatch | None  # None: it is durable already
    stream: Source


class Committer:
    """Gathers the batches of all streams and commits them in groups, one fsync a group."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: FairQueue[Source, WaitingBatch] = FairQueue(lambda: QUEUE_BYTES)
        self._large_batches: LargeBatches[Source] = LargeBatches()
        self.failure = ""  # why the inbox cannot be written now
        self._catalog_failure = "", 0.0  # why the catalog took no node, and when
        self.hold_s = 0.0  # so long agents are asked to gather a batch; 0: as long as they like
        self.granted_share = granted(())  # of a core, to questions that are asked again and again
        self.is_full = False  # agents wait for a sealing
        self._holding = False  # those do that send more than others
        self.committing_since: float | None = None  # monotonic time, s; None: no commit is under way
        self.counts = IngestCounts()
        # A thread of its own: a commit must not queue behind queries and Hellos.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")

    def load(self, lag_s: float) -> ServerLoad:
        """How busy the server is now; lag_s: by how much its event loop is late."""
        queue = self._queue.bytes / QUEUE_BYTES
        return ServerLoad(self.is_full, queue, self._store.unsealed_bytes / MAX_UNSEALED_BYTES, lag_s)

    @property
    def catalog_failure(self) -> str:
        """Why the catalog takes no nodes now; "": it does, or no agent wanted to connect of late."""
        why, at = self._catalog_failure
        return why if time.monotonic() - at < RECENT_S else ""

    def note_catalog(self, failure: str) -> None:
        """The catalog took a node, or not, and why."""
        self._catalog_failure = failure, time.monotonic()

    @property
    def hold_ms(self) -> int:
        """What an ack says of `hold_s`."""
        return round(1000 * self.hold_s)

    @property
    def queued(self) -> tuple[int, int]:
        """Batches and bytes that wait for the inbox."""
        return len(self._queue), self._queue.bytes

    async def admit(self, stream: Source, size: int) -> None:
        """Wait for room: with the disk behind, or much of the stream in the queue, the agent is held back."""
        await self._queue.admit(stream, size)

    def put(self, waiting: WaitingBatch, admitted: int) -> None:
        """Queue a batch that has room."""
        size = memory_of(waiting.decoded.frames) if waiting.decoded else 0
        self._queue.put(waiting.stream, waiting, admitted, size + len(waiting.entry.data))

    async def give_back(self, stream: Source, admitted: int) -> None:
        """A batch that had room was refused."""
        self._queue.release(stream, admitted)
        await self._queue.wake()

    async def run(self) -> None:
        while True:
            await self._queue.wait()
            await self._wait_for_sealing()
            group = self._queue.take(GROUP_BATCHES, GROUP_BYTES, STREAM_BYTES, self._may_commit)
            if group:
                begin, is_large = time.monotonic(), group[0].bytes > STREAM_BYTES
                await self._commit([queued.item for queued in group])
                await self._queue.done(group)
                streams = {queued.stream for queued in group}
                self._large_batches.committed(streams, is_large, begin, time.monotonic())
                self._holding = False
            elif rest_s := self._large_batches.wait_s(time.monotonic()):
                await self._queue.wait_for_more(min(rest_s, ROOM_LOOK_S))
            else:
                if not self._holding:
                    log.warning("sealing is behind; agents that send more than others wait")
                self._holding = True
                await asyncio.sleep(ROOM_LOOK_S)

    def _may_commit(self, stream: Source) -> bool:
        """Whether a node may add to what is not sealed: half of that is for those with less than others."""
        if self._large_batches.rests(stream, time.monotonic()):
            return False
        share = MAX_UNSEALED_BYTES // 2
        if self._store.unsealed_bytes <= share:
            return True
        return self._store.unsealed_bytes_of(stream.node) <= share // max(1, self._store.unsealed_nodes)

    async def _wait_for_sealing(self) -> None:
        while self._store.unsealed_bytes > MAX_UNSEALED_BYTES:
            if not self.is_full:
                log.warning("sealing is behind; agents wait")
            self.is_full = True
            await asyncio.sleep(ROOM_LOOK_S)
        self.is_full = False

    async def drain(self) -> None:
        """Wait until all that is queued is durable."""
        await self._queue.drain()

    async def _commit(self, group: list[WaitingBatch]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.committing_since = begin = time.monotonic()
            try:
                batches = [(w.entry, w.decoded) for w in group if w.decoded is not None]
                taken = await loop.run_in_executor(self._thread, self._store_batches, batches)
                break
            except Exception as error:
                # Nothing is acknowledged: agents keep the batches until there is room again.
                why = self._store.cause_of(error)
                if not self.failure:
                    log.error(
                        "cannot write the inbox (%s); agents wait, trying again",
                        why,
                        exc_info=self._store.own_fault(error),
                    )
                self.failure = why
                self.committing_since = None
                await asyncio.sleep(DISK_RETRY_S)
        if self.failure:
            log.warning("the inbox can be written again")
        self.failure = ""
        self.committing_since = None
        seconds = time.monotonic() - begin
        refused = set(map(id, taken))
        kept: dict[Source, list[int]] = {}
        for waiting in group:
            if id(waiting.entry) in refused:
                waiting.stream.refuse(waiting.entry.sequence, TAKEN, taken=True)
            else:
                kept.setdefault(waiting.stream, []).append(waiting.entry.sequence)
        # After the refusals: an ack of older agents covers all numbers below it.
        hold_ms = self.hold_ms
        for stream, sequences in kept.items():
            stream.acknowledge(sequences, hold_ms)
        self._count(group, seconds)

    def _store_batches(self, batches: Sequence[tuple[Entry, DecodedBatch]]) -> list[Entry]:
        """In the thread of commits."""
        begin = time.thread_time()
        try:
            return self._store.commit(batches)
        finally:
            self.counts.commit_cpu_s += time.thread_time() - begin

    def _count(self, group: list[WaitingBatch], seconds: float) -> None:
        kept = [waiting for waiting in group if waiting.decoded is not None]
        self.counts.commit_seconds.add(seconds)
        self.counts.batches += len(kept)
        self.counts.bytes += sum(len(w.entry.data) for w in kept)
        self.counts.rows += sum(rows(frame.base) for w in kept if w.decoded for frame in w.decoded.frames)
