"""The gRPC service agents stream to: checks batches, has them committed, pings."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any
from weakref import ref

import grpc
from roofline.limits import MAX_BATCH_BYTES, MAX_TIME_NS
from roofline.v1 import ingest_pb2 as pb

from .. import __version__
from ..clock_samples import exchange
from ..errors import BadBatch, Unavailable
from ..records import DecodedBatch, NodeKey
from ..store.catalog.name_ids import MAX_BROUGHT, NameIds
from ..store.catalog.runs import Unclear
from ..store.intake.entries import Entry
from ..store.intake.lineages import Known
from ..store.store import Store
from .addresses import address_of
from .commands import Agents
from .committer import TAKEN, Committer, WaitingBatch
from .decode import decode, parse
from .duplicate_agents import DuplicateAgents
from .grouped_calls import GroupedCalls
from .machine import decode_machine
from .pings import Turns
from .stream import AgentStream

log = logging.getLogger(__name__)

PROTOCOLS = 1, 2  # since 2 batches may hold Steps
MAX_STREAMS = 8192
NOT_NOW = grpc.StatusCode.RESOURCE_EXHAUSTED  # of UNAVAILABLE, agents show no text
MAX_IDENTITY = 64  # characters
IN_LOOP_BYTES = (
    128 << 10
)  # larger messages are decoded in a thread, as pings and small batches want their answer
# Nodes report once a second; an agent that has been cut off needs some time more.
RUN_WAIT_S, RUN_LOOK_S = 6.0, 0.1
MAX_FORMER_BOOTS = 64  # of batches of one stream
MAX_JUMP = 2**32  # of a number over the highest of its lineage: so many batches no agent makes


def decode_entry(entry: Entry, name_ids: NameIds) -> DecodedBatch:
    """The batch in an inbox row. Raises BadBatch (it was checked before it was stored)."""
    return decode(parse(entry.data).batch, entry.node, name_ids)


class IngestService:
    """Implements roofline.v1.Ingest."""

    def __init__(self, store: Store, committer: Committer, agents: Agents) -> None:
        """`agents` gets those that are connected, for whoever has a command for them."""
        self._store = store
        self._committer = committer
        self._agents = agents
        self._streams: set[AgentStream] = set()
        self._duplicates = DuplicateAgents()
        self._pings = Turns()
        self._decoding = asyncio.Semaphore(1)  # one large batch at a time
        self._hellos = GroupedCalls(store.hellos)  # all agents of a cluster may come at once

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
        self._duplicates.opened(stream)
        self._agents.add(stream.link)
        self._committer.counts.opened(stream.agent, stream.node)
        self._store.machines.stream_opened(stream.agent)
        self._log(stream, "connected")
        tasks = [
            asyncio.create_task(self._receive(stream, requests)),
            asyncio.create_task(self._pings.ping(stream.ping_once)),
        ]
        tasks[0].add_done_callback(lambda _: stream.outgoing.put_nowait(_END))
        opened = ref(stream)
        # gRPC's context holds what it calls, which holds the context: what that holds stays after the stream
        # until Python looks for cycles, which it seldom does.
        context.add_done_callback(lambda _: self._closed(opened(), tasks))
        try:
            yield pb.ServerMessage(
                welcome=pb.Welcome(
                    acked=stream.acked,
                    server=__version__,
                    max_batch_bytes=MAX_BATCH_BYTES,
                    lineage=stream.lineage,
                    exact_acks=stream.exact_acks,
                    hold_ms=self._committer.hold_ms,
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
        except Unavailable as error:
            await context.abort(NOT_NOW, str(error))
        finally:
            self._closed(stream, tasks)
            ended = asyncio.gather(*tasks, return_exceptions=True)
            tasks.clear()  # what ended them holds the last batch
            await ended

    def _closed(self, stream: AgentStream | None, tasks: Sequence[asyncio.Task[None]]) -> None:
        """The stream is over. Called once or twice: gRPC leaves a handler that is in the middle of sending to
        the garbage collector, so what it does at its end may come late."""
        if stream is None or stream not in self._streams:
            return
        self._streams.discard(stream)
        for task in tasks:
            task.cancel()
        self._agents.remove(stream.link)
        if all(other.node != stream.node for other in self._streams):
            # Who knows when it comes back: what it brings then has step deltas rebuilt.
            self._store.expect(stream.node, 0, 0)
        self._committer.counts.closed(stream.agent, stream.node)
        self._duplicates.closed(stream)
        self._store.machines.stream_closed(stream.agent)
        self._log(stream, "has gone")

    def _log(self, stream: AgentStream, what: str) -> None:
        count = len(self._streams)
        agents = "1 agent is" if count == 1 else f"{count} agents are"
        log.info("agent on %s (%s) %s; %s connected", stream.link.host, stream.agent[:8], what, agents)

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
        assert hello is not None
        try:
            node = await self._node(NodeKey(hello.agent, hello.boot), hello)
        except BadBatch as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except Unavailable as error:
            await context.abort(NOT_NOW, str(error))
        if 0 < hello.node_ns < MAX_TIME_NS:
            self._store.add_arrival(node, hello.node_ns, received_ns)
        acked = self._store.acked(hello.agent, hello.lineage)
        return AgentStream(hello, node, acked, address_of(context.peer()))

    async def _node(self, key: NodeKey, hello: Any) -> int:
        """The id of a node. Raises BadBatch for what no node reports of itself, and for too many boots, and
        Unavailable where it cannot be stored now."""
        report = key, decode_machine(hello)
        try:
            node = await self._hellos(report)
        except Unavailable as error:
            if not self._committer.catalog_failure:
                log.error("cannot store what nodes report (%s); agents wait, trying again", error)
            self._committer.note_catalog(str(error))
            raise Unavailable(f"the server cannot store what this node reports: {error}") from None
        self._committer.note_catalog("")
        if node is None:
            log.warning("agent %s is refused: its node boots too often", key.agent[:8])
            raise BadBatch(
                f"this node has booted more than {MAX_BROUGHT['boots']} times within a day; if the state "
                "directory of its agent was copied to other machines, give each its own --state"
            )
        return node

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
                    stream.link.received.behind = end_ns > 0
                    self._store.expect(stream.node, begin_ns, end_ns)
            elif kind == "result":
                stream.link.take(message.result)
            elif kind == "hello" and not _hello_problem(message.hello):
                await self._node(NodeKey(message.hello.agent, message.hello.boot), message.hello)
                stream.link.hello = message.hello

    async def _receive_batch(self, stream: AgentStream, message: Any, data: bytes) -> None:
        batch, now_ns = message.batch, self._store.now_ns()
        entry = Entry(0, stream.agent, batch.sequence, stream.node, now_ns, data, message.lineage)
        try:
            self._check(entry)
            if message.boot in ("", stream.boot):
                stream.link.received.batch(batch)
            else:
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
            self._committer.put(WaitingBatch(entry._replace(data=b""), None, stream), len(data))
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
        self._committer.put(WaitingBatch(entry, decoded, stream), len(data))

    async def _of_former_boot(self, stream: AgentStream, entry: Entry, boot: str) -> Entry:
        """A batch that waited through a restart of its node: its times are of another clock, as if of another
        node, and were over when this boot began. Raises BadBatch."""
        if boot not in stream.nodes_of_before:
            if not _is_identity(boot) or len(stream.nodes_of_before) >= MAX_FORMER_BOOTS:
                raise BadBatch(f"a boot {boot[:MAX_IDENTITY]!r}, or too many of them")
            key = NodeKey(stream.agent, boot)
            node = self._store.name_ids.nodes().get(key)
            if node is None:
                node = await self._node(key, stream.link.hello)
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
        wait_s = RUN_WAIT_S + self._committer.hold_s
        for patient in [True] * int(wait_s / RUN_LOOK_S) + [False]:
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
            self._duplicates.answered(stream, pong.id)
        if sent_ns is None or not 0 < pong.received_ns <= pong.sent_ns < MAX_TIME_NS:
            return
        sample = exchange(sent_ns, pong.received_ns, pong.sent_ns, now)
        if sample:
            self._store.add_clock_sample(stream.node, sample)


_END = pb.ServerMessage()


def _is_identity(text: str) -> bool:
    return len(text) <= MAX_IDENTITY and text.isprintable()


def _hello_problem(hello: Any) -> str:
    if hello is None or not hello.agent:
        return "the first message of a stream must be Hello with the agent's identity"
    if hello.protocol not in PROTOCOLS:
        spoken = " and ".join(map(str, PROTOCOLS))
        return f"protocol {hello.protocol} is not spoken here, only {spoken}: update the older side"
    identities = hello.agent, hello.boot, hello.instance, hello.lineage
    if not all(map(_is_identity, identities)):
        return f"agent, boot, instance and lineage have at most {MAX_IDENTITY} printable characters"
    return ""
