"""Bytes sent and received over a TCP connection on loopback, and bytes that are left unread."""

from __future__ import annotations

import socket

from ..peer import ASKED, HOST
from .done import Quantities, amounts

SENT, RECEIVED, UNREAD = 32 << 20, 16 << 20, 64 << 10


class ToPeer:
    """A connection, by which the peer is asked for bytes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def prepare(self) -> bool:
        """Connect, if that is not done."""
        if self._socket is not None:
            return False
        self._socket = socket.create_connection((HOST, self._port), timeout=60)
        return True

    def move(self, sent: int, asked: int) -> int:
        """Send so many bytes and ask for so many; how many were sent in all."""
        assert self._socket is not None
        head = ASKED.pack(sent, asked)
        self._socket.sendall(head)
        self._socket.sendall(bytes(sent))
        return len(head) + sent

    def read(self, size: int) -> None:
        assert self._socket is not None
        while size:
            got = len(self._socket.recv(min(size, 1 << 20)))
            if not got:
                raise ConnectionError("the peer has closed the connection")
            size -= got


class TcpWork(ToPeer):
    """Bytes in both directions."""

    def do(self) -> Quantities:
        sent = self.move(SENT, RECEIVED)
        self.read(RECEIVED)
        return amounts(sent_bytes=sent, received_bytes=RECEIVED, moved_bytes=sent + RECEIVED)


class UnreadWork(ToPeer):
    """Bytes that arrive and wait."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._waiting = 0

    def prepare(self) -> bool:
        """Read what waits."""
        new = super().prepare()
        had, self._waiting = self._waiting, 0
        self.read(had)
        return new or had > 0

    def do(self) -> Quantities:
        self.move(0, UNREAD)
        self._waiting = UNREAD
        self._wait_for(UNREAD)
        return amounts(unread_bytes=UNREAD)

    def _wait_for(self, size: int) -> None:
        """Until they have arrived, without reading them."""
        assert self._socket is not None
        while len(self._socket.recv(size, socket.MSG_PEEK | socket.MSG_WAITALL)) < size:
            pass
