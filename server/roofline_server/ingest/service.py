"""The gRPC service agents stream to: checks batches, has them committed in groups, acknowledges, pings."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import grpc
from roofline.v1 import ingest_pb2 as pb

from .. import __version__
from ..clock_samples import exchange
from ..counts import IngestCounts
from ..errors import BadBatch
from ..records import MAX_TIME_NS, DecodedBatch, NodeKey, rows
from ..store.catalog.name_ids import NameIds
from ..store.catalog.runs import Unclear
from ..store.intake.inbox import Entry
from ..store.store import Store
from .commands import Agents, Link
from .decode import decode, parse
from .machine import decode_machine
from .overload import ServerLoad
from .together import Together

log = logging.getLogger(__name__)

PROTOCOL = 1
MAX_BATCH_BYTES = 8 << 20
MAX_STREAMS = 8192
GROUP_BATCHES = 1024
GROUP_BYTES = 32 << 20
QUEUE_BATCHES, QUEUE_BYTES = 4096, 32 << 20
MAX_UNSEALED_BYTES = 128 << 20  # in memory until they are sealed; a few times what a sealing waits for
# A few pings in a row: the fastest of them bounds the offset best. At first often, so that there is a clock
# at once and soon a baseline for its drift, then rarely: each wakes the agent.
PINGS, PING_S = 4, 0.03
FIRST_PINGS, PING_AGAIN_S, PING_EVERY_S = 8, 0.5, 10.0
DISK_RETRY_S = 1.0
ROOM_LOOK_S = 0.05
# Nodes report once a second; an agent that has been cut off needs some time more.
RUN_WAIT_S, RUN_LOOK_S = 6.0, 0.1
MAX_PINGS = 64  # unanswered ones that are remembered


def decode_entry(entry: Entry, name_ids: NameIds) -> DecodedBatch:
    """The batch in an inbox row. Raises BadBatch (it was checked before it was stored)."""
    return decode(parse(entry.data).batch, entry.node, name_ids)


class _Waiting(NamedTuple):
    entry: Entry
    decoded: DecodedBatch
    stream: _Stream


class Committer:
    """Gathers the batches of all streams and commits them in groups, one fsync a group."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue(QUEUE_BATCHES)
        self._queued_bytes = 0
        self._taken = asyncio.Event()
        self.failure = ""  # why the inbox cannot be written now
        self.is_full = False  # agents wait for a sealing
        self.committing_since: float | None = None  # monotonic time, s; None: no commit is under way
        self.counts = IngestCounts()
        # A thread of its own: a commit must not queue behind queries and Hellos.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")

    def load(self, lag_s: float) -> ServerLoad:
        """How busy the server is now; lag_s: by how much its event loop is late."""
        queue = max(self._queued_bytes / QUEUE_BYTES, self._queue.qsize() / QUEUE_BATCHES)
        return ServerLoad(self.is_full, queue, self._store.unsealed_bytes / MAX_UNSEALED_BYTES, lag_s)

    @property
    def queued(self) -> tuple[int, int]:
        """Batches and bytes that wait for the inbox."""
        return self._queue.qsize(), self._queued_bytes

    async def put(self, waiting: _Waiting) -> None:
        """Queue a batch; waits while the disk is behind, and so holds the agent back."""
        while self._queued_bytes >= QUEUE_BYTES:
            self._taken.clear()
            await self._taken.wait()
        self._queued_bytes += len(waiting.entry.data)
        await self._queue.put(waiting)

    async def run(self) -> None:
        while True:
            group = [await self._queue.get()]
            size = len(group[0].entry.data)
            while not self._queue.empty() and len(group) < GROUP_BATCHES and size < GROUP_BYTES:
                group.append(self._queue.get_nowait())
                size += len(group[-1].entry.data)
            await self._wait_for_sealing()
            await self._commit(group)
            self._queued_bytes -= size
            self._taken.set()
            for _ in group:
                self._queue.task_done()

    async def _wait_for_sealing(self) -> None:
        while self._store.unsealed_bytes > MAX_UNSEALED_BYTES:
            if not self.is_full:
                log.warning("sealing is behind; agents wait")
            self.is_full = True
            await asyncio.sleep(ROOM_LOOK_S)
        self.is_full = False

    async def drain(self) -> None:
        """Wait until all that is queued is durable."""
        await self._queue.join()

    async def _commit(self, group: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.committing_since = begin = time.monotonic()
            try:
                batches = [(w.entry, w.decoded) for w in group]
                await loop.run_in_executor(self._thread, self._store.commit, batches)
                break
            except Exception as error:
                # Nothing is acknowledged: agents keep the batches until there is room again.
                if not self.failure:
                    log.error("cannot write the inbox (%s); agents wait, trying again", error)
                self.failure = str(error) or type(error).__name__
                self.committing_since = None
                await asyncio.sleep(DISK_RETRY_S)
        if self.failure:
            log.warning("the inbox can be written again")
        self.failure = ""
        self.committing_since = None
        seconds = time.monotonic() - begin
        highest = {w.stream: w.entry.sequence for w in group}
        for stream, sequence in highest.items():
            stream.send(pb.ServerMessage(ack=pb.Ack(sequence=sequence)))
        self._count(group, seconds)

    def _count(self, group: list[_Waiting], seconds: float) -> None:
        self.counts.commit_seconds.add(seconds)
        self.counts.batches += len(group)
        self.counts.bytes += sum(len(w.entry.data) for w in group)
        self.counts.rows += sum(rows(frame.base) for w in group for frame in w.decoded.frames)


class _Stream:
    """One agent's stream."""

    def __init__(self, hello: Any, node: int, acked: int) -> None:
        self.agent: str = hello.agent
        self.node = node
        self.received = acked  # highest sequence taken from this stream
        self.outgoing: asyncio.Queue[pb.ServerMessage] = asyncio.Queue()
        self.pings: dict[int, int] = {}  # on their way: id -> when sent
        self.link = Link(hello, self.send)

    def send(self, message: pb.ServerMessage) -> None:
        self.outgoing.put_nowait(message)

    async def ping(self) -> None:
        """Send pings until cancelled."""
        for number, wait_s in enumerate(ping_pauses(), 1):
            self.pings.pop(number - MAX_PINGS, None)
            self.send(pb.ServerMessage(ping=pb.Ping(id=number)))
            await asyncio.sleep(wait_s)


class IngestService:
    """Implements roofline.v1.Ingest."""

    def __init__(self, store: Store, committer: Committer, agents: Agents) -> None:
        """`agents` gets those that are connected, for whoever has a command for them."""
        self._store = store
        self._committer = committer
        self._agents = agents
        self._streams: set[_Stream] = set()
        self._hellos = Together(store.hellos)  # all agents of a cluster may come at once

    def handler(self) -> Any:
        """What a gRPC server adds. Requests come as bytes: a batch is stored as it came."""
        method = grpc.stream_stream_rpc_method_handler(
            self.Stream, request_deserializer=None, response_serializer=pb.ServerMessage.SerializeToString
        )
        return grpc.method_handlers_generic_handler("roofline.v1.Ingest", {"Stream": method})

    async def Stream(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        """One agent, from Hello to the end of its stream."""
        stream = await self._greet(requests, context)
        self._streams.add(stream)
        self._agents.add(stream.link)
        self._committer.counts.opened(stream.agent, stream.node)
        self._store.machines.stream_opened(stream.agent)
        log.info("agent %s connected (%d streams)", stream.agent[:8], len(self._streams))
        tasks = [
            asyncio.create_task(self._receive(stream, requests)),
            asyncio.create_task(stream.ping()),
        ]
        tasks[0].add_done_callback(lambda _: stream.outgoing.put_nowait(_END))
        try:
            yield pb.ServerMessage(
                welcome=pb.Welcome(acked=stream.received, server=__version__, max_batch_bytes=MAX_BATCH_BYTES)
            )
            while (message := await stream.outgoing.get()) is not _END:
                if message.WhichOneof("kind") == "ping":
                    message.ping.server_ns = self._store.now_ns()  # now, not when it was queued
                    stream.pings[message.ping.id] = message.ping.server_ns
                yield message
            await tasks[0]
        except BadBatch as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            self._agents.remove(stream.link)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._streams.discard(stream)
            self._committer.counts.closed(stream.agent, stream.node)
            self._store.machines.stream_closed(stream.agent)
            log.info("agent %s has gone (%d streams)", stream.agent[:8], len(self._streams))

    async def _greet(self, requests: AsyncIterator[bytes], context: Any) -> _Stream:
        if len(self._streams) >= MAX_STREAMS:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"this server serves {MAX_STREAMS} agents"
            )
        hello, received_ns = None, 0
        with contextlib.suppress(StopAsyncIteration, BadBatch):
            data = await anext(aiter(requests))
            received_ns = self._store.now_ns()
            hello = parse(data).hello
        problem = _hello_problem(hello)
        if problem:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        try:
            machine = decode_machine(hello)
        except BadBatch as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        assert hello is not None
        node = await self._hellos((NodeKey(hello.agent, hello.boot), machine))
        if 0 < hello.node_ns < MAX_TIME_NS:
            self._store.add_arrival(node, hello.node_ns, received_ns)
        return _Stream(hello, node, self._store.acked(hello.agent))

    async def _receive(self, stream: _Stream, requests: AsyncIterator[bytes]) -> None:
        async for data in requests:
            message = parse(data)
            kind = message.WhichOneof("kind")
            if kind == "batch":
                await self._receive_batch(stream, message.batch, data)
            elif kind == "pong":
                self._receive_pong(stream, message.pong)
            elif kind == "result":
                stream.link.take(message.result)
            elif kind == "hello" and not _hello_problem(message.hello):
                key = NodeKey(message.hello.agent, message.hello.boot)
                await self._hellos((key, decode_machine(message.hello)))
                stream.link.hello = message.hello

    async def _receive_batch(self, stream: _Stream, batch: Any, data: bytes) -> None:
        if batch.sequence <= stream.received:
            # Sent again after a reconnect, and durable or about to be.
            self._committer.counts.doubled += 1
            stream.send(pb.ServerMessage(ack=pb.Ack(sequence=self._store.acked(stream.agent))))
            return
        try:
            if len(data) > MAX_BATCH_BYTES:
                raise BadBatch(f"{len(data)} bytes; at most {MAX_BATCH_BYTES}")
            if 0 < batch.end_ns < MAX_TIME_NS:
                self._store.add_arrival(stream.node, batch.end_ns, self._store.now_ns())
            decoded = await self._decode(batch, stream.node)
        except BadBatch as error:
            self._committer.counts.refused += 1
            log.warning("batch %d of agent %s refused: %s", batch.sequence, stream.agent[:8], error)
            stream.send(pb.ServerMessage(rejection=pb.Rejection(sequence=batch.sequence, reason=str(error))))
            return
        stream.received = batch.sequence
        entry = Entry(0, stream.agent, batch.sequence, stream.node, self._store.now_ns(), data)
        await self._committer.put(_Waiting(entry, decoded, stream))

    async def _decode(self, batch: Any, node: int) -> DecodedBatch:
        """Waits for other nodes where they decide of which run a new process is. Raises BadBatch."""
        for _ in range(int(RUN_WAIT_S / RUN_LOOK_S)):
            try:
                return decode(batch, node, self._store.name_ids, patient=True)
            except Unclear:
                await asyncio.sleep(RUN_LOOK_S)
        return decode(batch, node, self._store.name_ids)

    def _receive_pong(self, stream: _Stream, pong: Any) -> None:
        now = self._store.now_ns()
        sent_ns = stream.pings.pop(pong.id, None)
        if sent_ns is None or not 0 < pong.received_ns <= pong.sent_ns < MAX_TIME_NS:
            return
        sample = exchange(sent_ns, pong.received_ns, pong.sent_ns, now)
        if sample:
            self._store.add_clock_sample(stream.node, sample)


_END = pb.ServerMessage()


def ping_pauses() -> Iterator[float]:
    """Seconds to wait after each ping of a stream."""
    pause, in_a_row = PING_AGAIN_S, FIRST_PINGS
    while True:
        yield from [PING_S] * (in_a_row - 1)
        yield pause
        pause, in_a_row = min(2 * pause, PING_EVERY_S), PINGS


def _hello_problem(hello: Any) -> str:
    if hello is None or not hello.agent:
        return "the first message of a stream must be Hello with the agent's identity"
    if hello.protocol != PROTOCOL:
        return f"protocol {hello.protocol} is not spoken here, only {PROTOCOL}: update the older side"
    if len(hello.agent) > 64 or len(hello.boot) > 64:
        return "agent and boot identities have at most 64 characters"
    return ""
