"""Who reaches the port and says nothing takes neither all descriptors nor all memory."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from pathlib import Path

import pytest
from roofline_server import grpc_server
from roofline_server.ingest.committer import Committer

from .builders import open_store


def taken(port: int, count: int) -> int:
    """Of so many connections that are opened, how many the server goes on with: those it greets."""
    greeted = 0
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            link.settimeout(20)
            with contextlib.suppress(ConnectionError):
                greeted += bool(link.recv(100))
    return greeted


def test_connections_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "MOST_CONNECTIONS", 3)

    async def scenario() -> None:
        store = open_store(tmp_path)
        server = grpc_server.grpc_server(store, Committer(store))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        assert await asyncio.to_thread(taken, port, 6) == 3
        await server.stop(0)
        store.close()

    asyncio.run(scenario())


def test_half_of_the_descriptors_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1024, 4096))
    assert grpc_server.most_connections() == 512
