"""The gRPC service agents stream to: checks batches, has them committed in groups, acknowledges, pings."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import grpc
from roofline.v1 import ingest_pb2 as pb

from .. import __version__
from ..clock_samples import exchange
from ..counts import IngestCounts
from ..errors import BadBatch
from ..records import MAX_TIME_NS, DecodedBatch, NodeKey, memory_of, rows
from ..store.catalog.name_ids import NameIds
from ..store.catalog.runs import Unclear
from ..store.intake.inbox import Entry, Known
from ..store.store import Store
from .addresses import address_of
from .commands import Agents
from .decode import decode, parse
from .fair_queue import FairQueue
from .machine import decode_machine
from .overload import ServerLoad
from .sharing import Sharing
from .stream import AgentStream
from .together import Together

log = logging.getLogger(__name__)

PROTOCOLS = 1, 2  # since 2 batches may hold Steps
MAX_BATCH_BYTES = 8 << 20
MAX_STREAMS = 8192
MAX_IDENTITY = 64  # characters
GROUP_BATCHES = 1024
# Of memory, as decoded.
GROUP_BYTES = 8 << 20
QUEUE_BYTES = 64 << 20
MAX_UNSEALED_BYTES = 384 << 20  # until they are sealed; a few times what a sealing waits for
IN_LOOP_BYTES = (
    128 << 10
)  # larger messages are decoded in a thread, as pings and small batches want their answer
DISK_RETRY_S = 1.0
ROOM_LOOK_S = 0.05
# Nodes report once a second; an agent that has been cut off needs some time more.
RUN_WAIT_S, RUN_LOOK_S = 6.0, 0.1
MAX_FORMER_BOOTS = 64  # of batches of one stream
MAX_JUMP = 2**32  # of a number over the highest of its lineage: so many batches no agent makes
TAKEN = (
    "another batch of this number was kept: two agents number their batches as one (a copied state "
    "directory, or one put back from a backup); update the agent, or give each its own --state"
)


def decode_entry(entry: Entry, name_ids: NameIds) -> DecodedBatch:
    """The batch in an inbox row. Raises BadBatch (it was checked before it was stored)."""
    return decode(parse(entry.data).batch, entry.node, name_ids)


class _Waiting(NamedTuple):
    entry: Entry
    decoded: DecodedBatch | None  # None: it is durable already
    stream: AgentStream


class Committer:
    """Gathers the batches of all streams and commits them in groups, one fsync a group."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: FairQueue[AgentStream, _Waiting] = FairQueue(lambda: QUEUE_BYTES)
        self.failure = ""  # why the inbox cannot be written now
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
    def queued(self) -> tuple[int, int]:
        """Batches and bytes that wait for the inbox."""
        return len(self._queue), self._queue.bytes

    async def admit(self, stream: AgentStream, size: int) -> None:
        """Wait for room: with the disk behind, or much of the stream in the queue, the agent is held back."""
        await self._queue.admit(stream, size)

    def put(self, waiting: _Waiting, admitted: int) -> None:
        """Queue a batch that has room."""
        size = memory_of(waiting.decoded.frames) if waiting.decoded else 0
        self._queue.put(waiting.stream, waiting, admitted, size + len(waiting.entry.data))

    async def give_back(self, stream: AgentStream, admitted: int) -> None:
        """A batch that had room was refused."""
        self._queue.release(stream, admitted)
        await self._queue.wake()

    async def run(self) -> None:
        while True:
            await self._queue.wait()
            await self._wait_for_sealing()
            group = self._queue.take(GROUP_BATCHES, GROUP_BYTES, self._may_commit)
            if group:
                await self._commit([queued.item for queued in group])
                await self._queue.done(group)
                self._holding = False
            else:
                if not self._holding:
                    log.warning("sealing is behind; agents that send more than others wait")
                self._holding = True
                await asyncio.sleep(ROOM_LOOK_S)

    def _may_commit(self, stream: AgentStream) -> bool:
        """Whether a node may add to what is not sealed: half of that is for those with less than others."""
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

    async def _commit(self, group: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.committing_since = begin = time.monotonic()
            try:
                batches = [(w.entry, w.decoded) for w in group if w.decoded is not None]
                taken = await loop.run_in_executor(self._thread, self._store.commit, batches)
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
        refused = set(map(id, taken))
        kept: dict[AgentStream, list[int]] = {}
        for waiting in group:
            if id(waiting.entry) in refused:
                waiting.stream.refuse(waiting.entry.sequence, TAKEN, taken=True)
            else:
                kept.setdefault(waiting.stream, []).append(waiting.entry.sequence)
        # After the refusals: an ack of older agents covers all numbers below it.
        for stream, sequences in kept.items():
            stream.acknowledge(sequences)
        self._count(group, seconds)

    def _count(self, group: list[_Waiting], seconds: float) -> None:
        kept = [waiting for waiting in group if waiting.decoded is not None]
        self.counts.commit_seconds.add(seconds)
        self.counts.batches += len(kept)
        self.counts.bytes += sum(len(w.entry.data) for w in kept)
        self.counts.rows += sum(rows(frame.base) for w in kept if w.decoded for frame in w.decoded.frames)


class IngestService:
    """Implements roofline.v1.Ingest."""

    def __init__(self, store: Store, committer: Committer, agents: Agents) -> None:
        """`agents` gets those that are connected, for whoever has a command for them."""
        self._store = store
        self._committer = committer
        self._agents = agents
        self._streams: set[AgentStream] = set()
        self._sharing = Sharing()
        self._decoding = asyncio.Semaphore(1)  # one large batch at a time
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
        self._sharing.opened(stream)
        self._agents.add(stream.link)
        self._committer.counts.opened(stream.agent, stream.node)
        self._store.machines.stream_opened(stream.agent)
        log.info("agent %s connected (%d streams)", stream.agent[:8], len(self._streams))
        tasks = [
            asyncio.create_task(self._receive(stream, requests)),
            asyncio.create_task(stream.ping()),
        ]
        tasks[0].add_done_callback(lambda _: stream.outgoing.put_nowait(_END))
        context.add_done_callback(lambda _: self._closed(stream, tasks))
        try:
            yield pb.ServerMessage(
                welcome=pb.Welcome(
                    acked=stream.acked,
                    server=__version__,
                    max_batch_bytes=MAX_BATCH_BYTES,
                    lineage=stream.lineage,
                    exact_acks=stream.exact_acks,
                )
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
            self._closed(stream, tasks)
            await asyncio.gather(*tasks, return_exceptions=True)

    def _closed(self, stream: AgentStream, tasks: Sequence[asyncio.Task[None]]) -> None:
        """The stream is over. Called once or twice: gRPC leaves a handler that is amid sending to the garbage
        collector, so what it does at its end may come late."""
        if stream not in self._streams:
            return
        self._streams.discard(stream)
        for task in tasks:
            task.cancel()
        self._agents.remove(stream.link)
        if all(other.node != stream.node for other in self._streams):
            # Who knows when it comes back: what it brings then has step deltas made anew.
            self._store.expect(stream.node, 0, 0)
        self._committer.counts.closed(stream.agent, stream.node)
        self._sharing.closed(stream)
        self._store.machines.stream_closed(stream.agent)
        log.info("agent %s has gone (%d streams)", stream.agent[:8], len(self._streams))

    async def _greet(self, requests: AsyncIterator[bytes], context: Any) -> AgentStream:
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
        acked = self._store.acked(hello.agent, hello.lineage)
        return AgentStream(hello, node, acked, address_of(context.peer()))

    async def _receive(self, stream: AgentStream, requests: AsyncIterator[bytes]) -> None:
        async for data in requests:
            message = parse(data)
            kind = message.WhichOneof("kind")
            if kind == "batch":
                await self._receive_batch(stream, message, data)
            elif kind == "pong":
                self._receive_pong(stream, message.pong)
            elif kind == "backlog":
                begin_ns, end_ns = message.backlog.begin_ns, message.backlog.end_ns
                if 0 <= begin_ns <= end_ns < MAX_TIME_NS:
                    self._store.expect(stream.node, begin_ns, end_ns)
            elif kind == "result":
                stream.link.take(message.result)
            elif kind == "hello" and not _hello_problem(message.hello):
                key = NodeKey(message.hello.agent, message.hello.boot)
                await self._hellos((key, decode_machine(message.hello)))
                stream.link.hello = message.hello

    async def _receive_batch(self, stream: AgentStream, message: Any, data: bytes) -> None:
        batch, now_ns = message.batch, self._store.now_ns()
        entry = Entry(0, stream.agent, batch.sequence, stream.node, now_ns, data, message.lineage)
        try:
            self._check(entry)
            if message.boot not in ("", stream.boot):
                entry = await self._of_former_boot(stream, entry, message.boot)
            known = self._store.known(entry)
            if known == Known.TAKEN:
                stream.refuse(batch.sequence, TAKEN, taken=True)
                return
        except BadBatch as error:
            stream.refuse(batch.sequence, str(error))
            return
        await self._committer.admit(stream, len(data))
        if known == Known.KEPT:
            self._committer.counts.doubled += 1
            # Sent again after a reconnect. In the queue, as its ack covers what was sent before it.
            self._committer.put(_Waiting(entry._replace(data=b""), None, stream), len(data))
            return
        try:
            if 0 < batch.end_ns < MAX_TIME_NS:
                self._store.add_arrival(entry.node, batch.end_ns, entry.received_ns)
            decoded = await self._decode(batch, entry.node, len(data) > IN_LOOP_BYTES)
        except BaseException as error:
            await self._committer.give_back(stream, len(data))
            if not isinstance(error, BadBatch):
                raise
            self._committer.counts.refused += 1
            stream.refuse(batch.sequence, str(error))
            return
        self._committer.put(_Waiting(entry, decoded, stream), len(data))

    async def _of_former_boot(self, stream: AgentStream, entry: Entry, boot: str) -> Entry:
        """A batch that waited through a restart of its node: its times are of another clock, as if of another
        node, and were over when this boot began. Raises BadBatch."""
        if boot not in stream.nodes_of_before:
            if len(boot) > MAX_IDENTITY or len(stream.nodes_of_before) >= MAX_FORMER_BOOTS:
                raise BadBatch(f"a boot of {len(boot)} characters, or too many of them")
            key = NodeKey(stream.agent, boot)
            node = self._store.name_ids.nodes().get(key)
            if node is None:
                node = await self._hellos((key, decode_machine(stream.link.hello)))
            stream.nodes_of_before[boot] = node
        began_ns = self._store.began_ns(stream.node)
        return entry._replace(node=stream.nodes_of_before[boot], received_ns=min(entry.received_ns, began_ns))

    def _check(self, entry: Entry) -> None:
        """Raises BadBatch."""
        if len(entry.data) > MAX_BATCH_BYTES:
            raise BadBatch(f"{len(entry.data)} bytes; at most {MAX_BATCH_BYTES}")
        if len(entry.lineage) > MAX_IDENTITY:
            raise BadBatch(f"a lineage of {len(entry.lineage)} characters; at most {MAX_IDENTITY}")
        highest = self._store.acked(entry.agent, entry.lineage)
        if not 0 < entry.sequence <= highest + MAX_JUMP:
            raise BadBatch(f"sequence {entry.sequence} is too far from {highest}, the highest before it")

    async def _decode(self, batch: Any, node: int, is_large: bool) -> DecodedBatch:
        """Waits for other nodes where they decide of which run a new process is. Raises BadBatch."""
        for patient in [True] * int(RUN_WAIT_S / RUN_LOOK_S) + [False]:
            try:
                if not is_large:
                    return decode(batch, node, self._store.name_ids, patient)
                async with self._decoding:
                    return await asyncio.to_thread(decode, batch, node, self._store.name_ids, patient)
            except Unclear:
                await asyncio.sleep(RUN_LOOK_S)
        raise AssertionError("who is not patient is never unclear")

    def _receive_pong(self, stream: AgentStream, pong: Any) -> None:
        now = self._store.now_ns()
        sent_ns = stream.pings.pop(pong.id, None)
        if sent_ns is not None:
            self._sharing.answered(stream, pong.id)
        if sent_ns is None or not 0 < pong.received_ns <= pong.sent_ns < MAX_TIME_NS:
            return
        sample = exchange(sent_ns, pong.received_ns, pong.sent_ns, now)
        if sample:
            self._store.add_clock_sample(stream.node, sample)


_END = pb.ServerMessage()


def _hello_problem(hello: Any) -> str:
    if hello is None or not hello.agent:
        return "the first message of a stream must be Hello with the agent's identity"
    if hello.protocol not in PROTOCOLS:
        spoken = " and ".join(map(str, PROTOCOLS))
        return f"protocol {hello.protocol} is not spoken here, only {spoken}: update the older side"
    identities = hello.agent, hello.boot, hello.instance, hello.lineage
    if max(map(len, identities)) > MAX_IDENTITY:
        return f"identities of agent, boot, instance and lineage have at most {MAX_IDENTITY} characters"
    return ""
