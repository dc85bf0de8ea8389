"""The Unix socket that training processes speak to: who is connected and what they sent, not what it means.

Its type is SOCK_SEQPACKET. Who sent a packet is what the kernel says (the peer's credentials), never what the
packet says. It is read in strides, not at every packet: the kernel holds a few hundred marks per process
meanwhile.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import Unavailable

MAX_CONNECTIONS = 4096
MAX_PACKET = 1 << 17
PACKETS_PER_STRIDE = 4096
_CREDENTIALS = struct.Struct("=3i")


class Peer(NamedTuple):
    """The process at the other end, as the kernel knows it."""

    pid: int
    uid: int


class Listener:
    """The socket and its connections."""

    def __init__(self, path: Path, everyone: bool) -> None:
        """Listen at `path`; `everyone`: processes of all users may connect (the system's agent).

        Raises Unavailable when the path cannot be had.
        """
        self.path = path
        self._peers: dict[socket.socket, Peer] = {}
        self.full = False  # nobody else can be taken in for now
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755 if everyone else 0o700)
            if _answers(path):
                self._socket.close()
                raise Unavailable(f"another agent listens at {path}; stop it, or choose another --socket")
            path.unlink(missing_ok=True)
            self._socket.setblocking(False)
            self._socket.bind(str(path))
            path.chmod(0o666 if everyone else 0o600)
            self._socket.listen(1024)
        except OSError as error:
            self._socket.close()
            raise Unavailable(
                f"cannot listen for marks at {path}: {error.strerror or error}; choose another --socket"
            ) from None

    def fileno(self) -> int:
        """Readable when somebody wants to connect."""
        return self._socket.fileno()

    def read(self) -> Iterator[tuple[socket.socket, Peer, bytes]]:
        """All packets that wait; a connection that ended yields one last empty packet."""
        for connection, peer in list(self._peers.items()):
            for data in _packets(connection):
                yield connection, peer, data
                if not data:
                    del self._peers[connection]
                    connection.close()

    def accept(self) -> list[tuple[socket.socket, Peer]]:
        """Take in whoever waits; returns the new ones."""
        taken: list[tuple[socket.socket, Peer]] = []
        while True:
            self.full = len(self._peers) >= MAX_CONNECTIONS
            if self.full:
                return taken
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return taken
            except OSError:  # out of descriptors: those who wait are taken in when others leave
                self.full = True
                return taken
            else:
                connection.setblocking(False)
                pid, uid, _ = _CREDENTIALS.unpack(
                    connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                )
                self._peers[connection] = Peer(pid, uid)
                taken.append((connection, self._peers[connection]))

    def close(self) -> None:
        for connection in self._peers:
            connection.close()
        self._socket.close()
        with contextlib.suppress(OSError):
            self.path.unlink()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _packets(connection: socket.socket) -> Iterator[bytes]:
    for _ in range(PACKETS_PER_STRIDE):
        try:
            data = connection.recv(MAX_PACKET)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        yield data
        if not data:
            return
