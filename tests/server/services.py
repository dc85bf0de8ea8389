"""Both services over real gRPC in this process, and an agent's side of a stream."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import ingest_pb2_grpc, query_pb2_grpc
from roofline_server.grpc_server import grpc_server
from roofline_server.ingest.committer import Committer
from roofline_server.store.store import Store

from .builders import UNIX, open_store

PATIENCE_S = 20.0


class Served:
    """A running server."""

    def __init__(self, store: Store, committer: Committer, channel: grpc.aio.Channel) -> None:
        self.store, self.committer, self.channel = store, committer, channel
        self.query = query_pb2_grpc.QueryStub(channel)

    def agent(self, name: str = "agent-a", **hello: Any) -> Agent:
        return Agent(self.channel, name, **hello)


@contextlib.asynccontextmanager
async def stopped(server: grpc.aio.Server, store: Store, *tasks: asyncio.Task[Any]) -> AsyncIterator[None]:
    """Whatever fails in the block, the server, its tasks and its store are stopped: one that is left in C may
    hold up the test forever."""
    try:
        yield
    finally:
        await server.stop(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        store.close()


@contextlib.asynccontextmanager
async def serving(root: Path) -> AsyncIterator[Served]:
    store = open_store(root)
    committer = Committer(store)
    server = grpc_server(store, committer)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    work = asyncio.create_task(committer.run())
    async with stopped(server, store, work), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Served(store, committer, channel)


class Agent:
    """One stream, as an agent opens it; what the server says is kept in `heard`. Its node time is UNIX less
    than the server's, which it says in answer to pings."""

    def __init__(
        self, channel: grpc.aio.Channel, name: str = "agent-a", answers: bool = True, **hello: Any
    ) -> None:
        self._answers = answers
        self.hello = pb.Hello(
            **{"protocol": 1, "agent": name, "boot": "boot", "machine": {"host": "node1"}, **hello}
        )
        self.call = ingest_pb2_grpc.IngestStub(channel).Stream()
        self.heard: list[pb.ServerMessage] = []
        self._writing = asyncio.Lock()  # gRPC takes one write at a time
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Agent:
        await self.call.write(pb.AgentMessage(hello=self.hello))
        self._reading = asyncio.create_task(self._read())
        await self.until(lambda: self.all("welcome"))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.call.cancel()
        if self._reading:
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        async for message in self.call:
            self.heard.append(message)
            if self._answers and message.WhichOneof("kind") == "ping":
                await self.pong(message.ping)

    async def pong(self, ping: pb.Ping, behind_ns: int = UNIX) -> None:
        now = time.time_ns() - behind_ns
        pong = pb.Pong(id=ping.id, server_ns=ping.server_ns, received_ns=now, sent_ns=now)
        await self.write(pb.AgentMessage(pong=pong))

    async def write(self, message: pb.AgentMessage) -> None:
        async with self._writing:
            await self.call.write(message)

    def all(self, kind: str) -> list[Any]:
        return [getattr(m, kind) for m in self.heard if m.WhichOneof("kind") == kind]

    @property
    def acked(self) -> int:
        return max((a.sequence for a in (*self.all("ack"),)), default=0)

    async def send(self, *batches: pb.Batch) -> None:
        for one in batches:
            await self.write(pb.AgentMessage(batch=one))

    async def until(self, condition: Callable[[], Any]) -> Any:
        """The first true value of `condition`; raises what ended the stream when that comes first."""

        async def wait() -> Any:
            while not (found := condition()):
                assert self._reading
                if self._reading.done():
                    await self._reading
                    raise AssertionError("the server closed the stream")
                await asyncio.sleep(0.005)
            return found

        return await asyncio.wait_for(wait(), PATIENCE_S)


def run(work: Callable[[Served], Coroutine[Any, Any, None]], root: Path) -> None:
    async def served() -> None:
        async with serving(root) as server:
            await asyncio.wait_for(work(server), 60)

    asyncio.run(served())


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""
