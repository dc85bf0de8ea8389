"""A TCP proxy between agents and a server that can be told to be a bad network, while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from enum import Enum

PIECE = 1 << 16
TRICKLE_BYTES, TRICKLE_S = 200, 0.02
LOOK_S = 0.02


class Mode(Enum):
    PASS = "pass"
    PARTITION = "partition"  # nothing goes through, and no end learns of it
    DELAY = "delay"
    TRICKLE = "trickle"
    REFUSE = "refuse"  # connections are reset, new ones too


class Proxy:
    """One address for whatever server there is; `mode` may change at any time."""

    def __init__(self, target: Callable[[], str]) -> None:
        """target: HOST:PORT of the server now, "" while there is none."""
        self.mode, self.delay_s = Mode.PASS, 0.4
        self.address = ""
        self.carried = 0  # bytes, in both directions
        self._target = target
        self._links: set[_Link] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield
        finally:
            server.close()
            self.reset()
            await asyncio.gather(*(link.ended.wait() for link in self._links))

    def reset(self) -> int:
        """Reset all connections at both ends; how many there were."""
        for link in self._links:
            link.close()
        return len(self._links)

    def half_open(self) -> int:
        """End all connections to the server, and leave those to agents open, on which nothing ever comes."""
        for link in self._links:
            link.leave_server()
        return len(self._links)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode is Mode.REFUSE or not self._target():
            _abort(writer)
            return
        host, _, port = self._target().rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            _abort(writer)
            return
        link = _Link(reader, writer, far_writer)
        self._links.add(link)
        try:
            await asyncio.gather(self._carry(link, reader, far_writer), self._carry(link, far_reader, writer))
        finally:
            self._links.discard(link)
            link.ended.set()

    async def _carry(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes until one end closes; then close the other, unless it must not know."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while data := await reader.read(TRICKLE_BYTES if self.mode is Mode.TRICKLE else PIECE):
                if self.mode is Mode.DELAY:
                    await asyncio.sleep(self.delay_s)
                elif self.mode is Mode.TRICKLE:
                    await asyncio.sleep(TRICKLE_S)
                while self.mode is Mode.PARTITION and not link.is_closed:
                    await asyncio.sleep(LOOK_S)
                if link.is_half_open:
                    continue  # into nothing
                writer.write(data)
                await writer.drain()
                self.carried += len(data)
        if not link.is_half_open or reader is link.near_reader:
            link.close()


class _Link:
    """One connection through the proxy: to an agent, and to the server."""

    def __init__(
        self, near_reader: asyncio.StreamReader, near: asyncio.StreamWriter, far: asyncio.StreamWriter
    ) -> None:
        self.near_reader, self._near, self._far = near_reader, near, far
        self.is_half_open = self.is_closed = False
        self.ended = asyncio.Event()

    def leave_server(self) -> None:
        self.is_half_open = True
        _abort(self._far)

    def close(self) -> None:
        self.is_closed = True
        _abort(self._near)
        _abort(self._far)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with RST in the place of FIN."""
    found = writer.get_extra_info("socket")
    if found is not None and not writer.is_closing():
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
