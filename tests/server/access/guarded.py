"""A server with TLS and tokens, and what becomes of calls."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
from roofline.joining import SERVER_NAME
from roofline.v1 import access_pb2, ingest_pb2, query_pb2
from roofline_server.access import authority
from roofline_server.access.audit import Audit
from roofline_server.access.credentials import credentials
from roofline_server.access.guard import Guard
from roofline_server.access.tokens import Tokens
from roofline_server.grpc_server import grpc_server
from roofline_server.ingest.committer import Committer

from ..builders import open_store
from ..services import stopped

METHODS = [
    f"/{service.full_name}/{method.name}"
    for file in (access_pb2, ingest_pb2, query_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
Code = grpc.StatusCode


class Guarded:
    """A server with TLS and tokens."""

    def __init__(self, root: Path, port: int, tokens: Tokens) -> None:
        self.root, self.port, self.tokens = root, port, tokens

    def channel(self, secret: str = "", trusted: bytes | None = None) -> grpc.aio.Channel:
        known = trusted or (self.root / "access" / "authority.pem").read_bytes()
        secured: Any = grpc.ssl_channel_credentials(known)
        if secret:
            secured = grpc.composite_channel_credentials(secured, grpc.access_token_call_credentials(secret))
        options = (("grpc.ssl_target_name_override", SERVER_NAME),)
        return grpc.aio.secure_channel(f"127.0.0.1:{self.port}", secured, options=options)

    def audit(self) -> list[dict[str, Any]]:
        return list(map(json.loads, (self.root / "access" / "audit.log").read_text().splitlines()))


@contextlib.asynccontextmanager
async def guarded(root: Path) -> AsyncIterator[Guarded]:
    folder = root / "access"
    authority.create(folder)
    tokens = Tokens(folder)
    watching = Guard(tokens, Audit(folder))
    store = open_store(root)
    committer = Committer(store)
    server = grpc_server(store, committer, watching)
    port = server.add_secure_port("127.0.0.1:0", credentials(folder))
    await server.start()
    tasks = [asyncio.create_task(committer.run()), asyncio.create_task(watching.watch())]
    async with stopped(server, store, *tasks):
        yield Guarded(root, port, tokens)


async def outcome(channel: grpc.aio.Channel, method: str) -> grpc.StatusCode:
    """What becomes of a call of any kind with an empty request."""
    code = Code.INTERNAL
    for _ in range(5):  # gRPC's client says INTERNAL where a stream was refused before it wrote
        code = await _outcome(channel, method)
        if code != Code.INTERNAL:
            break
    return code


async def _outcome(channel: Any, method: str) -> grpc.StatusCode:
    streams = method.endswith("/Stream")
    make = channel.stream_stream if streams else channel.unary_stream
    call = make(method, request_serializer=bytes, response_deserializer=bytes)
    asked = call(iter([b""]) if streams else b"", timeout=10)
    try:
        async for _ in asked:
            pass
    except grpc.RpcError as error:
        return error.code()
    return Code.OK


async def endless(service: Any, request: Any, context: Any) -> AsyncIterator[Any]:
    """As an answer of very many pieces."""
    while True:
        yield query_pb2.TableChunk(dataset="x" * 3_000_000)  # more than is sent ahead
        await asyncio.sleep(0.001)


async def ended(call: Any) -> grpc.StatusCode:
    """How a call with many answers ends, which are read until then."""

    async def read() -> grpc.StatusCode:
        with contextlib.suppress(grpc.RpcError):
            while await call.read() is not grpc.aio.EOF:
                pass
        return await call.code()

    return await asyncio.wait_for(read(), 10)
