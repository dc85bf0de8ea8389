"""The other end of the worker's TCP connections: takes as many bytes as it is told, and sends some back."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

HOST = "127.0.0.1"
ASKED = struct.Struct("<QQ")  # bytes that follow, bytes to send then
_PART = bytes(1 << 20)


class TcpPeer:
    """A thread for each connection; `close` ends them."""

    def __init__(self) -> None:
        """Raises OSError where nothing can listen on loopback."""
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, name="validate-peer", daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=_serve, args=(connection,), name="validate-peer", daemon=True).start()

    def close(self) -> None:
        for one in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # wakes who waits for it
            one.close()


def _serve(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        while head := connection.recv(ASKED.size, socket.MSG_WAITALL):
            follows, wanted = ASKED.unpack(head)
            while follows:
                got = len(connection.recv(min(follows, len(_PART))))
                if not got:
                    return
                follows -= got
            while wanted:
                part = min(wanted, len(_PART))
                connection.sendall(memoryview(_PART)[:part])
                wanted -= part
