"""The receiving end's TCP port: echoes, and counts what it is sent. Who has no ticket is closed."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import threading
import time
from collections.abc import Callable

from . import handshake

MAX_CONNECTIONS = 64
MAX_ECHO = 64 << 20  # bytes


class TcpReceiver:
    """Serves until somebody closes it; `ended` is called once, when the control connection has ended."""

    def __init__(self, ticket: str, ended: Callable[[], None]) -> None:
        """Listens at a port of the system's choice, on all addresses. Raises OSError."""
        self._ticket = ticket
        self._ended = ended
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._received = 0
        self._socket = listen()
        self.port: int = self._socket.getsockname()[1]
        self.controlled = threading.Event()  # somebody with the ticket has come
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # else the port stays open while a thread waits at it
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            if not self._room.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError, handshake.Closed, ValueError):
                self._answer(connection)
        finally:
            self._room.release()

    def _answer(self, connection: socket.socket) -> None:
        once = secrets.token_hex(16)
        handshake.send(connection, {"once": once})
        hello = handshake.receive(connection, handshake.HELLO_S)
        shown = str(hello.pop("proof", ""))
        if not hmac.compare_digest(shown.encode(), handshake.proof(self._ticket, once, hello).encode()):
            return
        handshake.prepare(connection)
        connection.settimeout(None)
        if hello.get("for") == "control" and self._take_control():
            self._control(connection)
            return
        handshake.send(connection, {"ok": True})
        if not self.controlled.is_set():
            return
        if hello.get("for") == "echo":
            _echo(connection, int(hello["size"]))
        elif hello.get("for") == "sink":
            buffer = memoryview(bytearray(handshake.CHUNK))
            while count := connection.recv_into(buffer):
                with self._lock:
                    self._received += count

    def _take_control(self) -> bool:
        """Whether nobody has come before: there is one sending end. It hears of it afterwards, for what it
        sends then must find it so."""
        with self._lock:
            is_first = not self.controlled.is_set()
            self.controlled.set()
        return is_first

    def _control(self, connection: socket.socket) -> None:
        try:
            handshake.send(connection, {"ok": True})
            while handshake.receive(connection).get("ask") == "count":
                # The count first: what comes in between belongs to the next window.
                with self._lock:
                    received, now = self._received, time.monotonic_ns()
                handshake.send(connection, {"bytes": received, "ns": now})
        finally:
            self._ended()


def listen() -> socket.socket:
    """A socket for IPv6 and IPv4, or for IPv4 alone where the kernel has no other."""
    with contextlib.suppress(OSError):
        if socket.has_dualstack_ipv6():
            return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
    return socket.create_server(("0.0.0.0", 0), backlog=128)


def _echo(connection: socket.socket, size: int) -> None:
    if not 0 < size <= MAX_ECHO:
        return
    buffer = memoryview(bytearray(size))
    while handshake.read_exactly(connection, buffer):
        connection.sendall(buffer)
