"""The Unix socket that training processes send to: which processes are connected, and their packets as bytes.

Its type is SOCK_SEQPACKET. The kernel names the sender of a packet (the peer's credentials), never the packet
itself. The socket is read a few times a second, not at every packet: meanwhile the kernel holds a few hundred
marks per process.
"""

from __future__ import annotations

import contextlib
import logging
import resource
import socket
import stat
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import Unavailable

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 4096
MAX_PACKET = 1 << 17
PACKETS_PER_READ, PACKETS_OF_USER = 4096, 32_768  # of a connection, of all connections of a user
ACCEPTS_PER_CALL = 1024  # else who connects all the time holds up all else
_CREDENTIALS = struct.Struct("=3i")


def most_connections() -> int:
    """Half of the descriptors at most: /proc has to be read too."""
    return min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class PeerProcess(NamedTuple):
    """The process at the other end, as the kernel knows it."""

    pid: int
    uid: int


class MarkListener:
    """The socket and its connections."""

    def __init__(self, path: Path, everyone: bool) -> None:
        """Listen at `path`; `everyone`: processes of all users may connect (the system's agent).

        Raises Unavailable when that is not possible.
        """
        self.path, self._everyone = path, everyone
        self._peers: dict[socket.socket, PeerProcess] = {}
        self._connections_of: Counter[int] = Counter()  # by user
        self._closed: list[tuple[socket.socket, PeerProcess]] = []  # to make room, since the last read
        self.surplus = 0  # connections that were closed because their user has too many, ever
        self.most_waited = 0  # packets of one process at the last read
        self.full = False  # no further connection can be accepted for now
        self._said_full = False
        self._socket, self._inode = self._listen()

    def _listen(self) -> tuple[socket.socket, int]:
        """A new socket at the path, and its inode. Raises Unavailable."""
        path = self.path
        found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755 if self._everyone else 0o700)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                if probe.connect_ex(str(path)) == 0:
                    raise Unavailable(f"another agent listens at {path}; stop it, or choose another --socket")
            _remove_socket(path)
            found.setblocking(False)
            found.bind(str(path))
            inode = 0
            with contextlib.suppress(FileNotFoundError):  # removed already: `renew` makes it again
                path.chmod(0o666 if self._everyone else 0o600)
                inode = path.stat().st_ino
            found.listen(1024)
            return found, inode
        except OSError as error:
            found.close()
            raise Unavailable(
                f"cannot listen for marks at {path}: {error.strerror or error}; choose another --socket"
            ) from None
        except Unavailable:
            found.close()
            raise

    def renew(self) -> bool:
        """Listen again if somebody has removed or replaced the socket's file; whether that was done. What is
        connected stays so. Raises Unavailable where another agent listens there now."""
        try:
            if self.path.stat().st_ino == self._inode:
                return False
        except OSError:
            pass  # it is not there any more
        before = self._socket
        self._socket, self._inode = self._listen()
        before.close()
        return True

    def fileno(self) -> int:
        """Readable when a process wants to connect."""
        return self._socket.fileno()

    @property
    def connections(self) -> int:
        """How many processes are connected."""
        return len(self._peers)

    def users(self) -> int:
        """How many users have connected processes, at least 1."""
        return max(1, len(self._connections_of))

    def read(self) -> Iterator[tuple[socket.socket, PeerProcess, bytes]]:
        """All packets that wait; a connection that ended yields one last empty packet."""
        self.most_waited = 0
        closed, self._closed = self._closed, []
        for connection, peer in closed:
            yield connection, peer, b""
        left = dict.fromkeys(self._connections_of, PACKETS_OF_USER)
        for connection, peer in list(self._peers.items()):
            for number in range(min(PACKETS_PER_READ, left[peer.uid])):
                self.most_waited = max(self.most_waited, number)
                try:
                    data = connection.recv(MAX_PACKET)
                except (BlockingIOError, InterruptedError):
                    break
                except OSError:
                    data = b""
                left[peer.uid] -= 1
                yield connection, peer, data
                if not data:
                    self._drop(connection)
                    break

    def accept(self) -> list[tuple[socket.socket, PeerProcess]]:
        """Accept all that wait to connect; returns the new connections."""
        accepted: list[tuple[socket.socket, PeerProcess]] = []
        self.full = False
        for _ in range(ACCEPTS_PER_CALL):
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                self._said_full = False
                return accepted
            except OSError as error:  # out of descriptors: others wait until some connections have ended
                self.full = True
                self._say_full(error)
                return accepted
            else:
                connection.setblocking(False)
                pid, uid, _ = _CREDENTIALS.unpack(
                    connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                )
                peer = PeerProcess(pid, uid)
                if len(self._peers) < most_connections() or self._make_room(uid):
                    self._peers[connection] = peer
                    self._connections_of[uid] += 1
                    accepted.append((connection, peer))
                else:
                    connection.close()
        return accepted

    def _say_full(self, error: OSError) -> None:
        """Once, until all could connect: meanwhile the steps of those who wait are lost."""
        if not self._said_full:
            self._said_full = True
            log.warning(
                "no more processes can connect for now (%s), and their steps are not recorded: raise the "
                "number of files that the agent may have open (LimitNOFILE=, ulimit -n)",
                error.strerror or error,
            )

    def _make_room(self, uid: int) -> bool:
        """Close the newest connection of the user who has most; False: that is this one. So who opens as many
        as there can be keeps nobody else out."""
        self.surplus += 1
        greediest, most = self._connections_of.most_common(1)[0]
        if self._connections_of[uid] >= most:
            return False
        newest = next(one for one in reversed(self._peers) if self._peers[one].uid == greediest)
        self._closed.append((newest, self._peers[newest]))
        self._drop(newest)
        return True

    def _drop(self, connection: socket.socket) -> None:
        user = self._peers.pop(connection).uid
        connection.close()
        self._connections_of[user] -= 1
        if not self._connections_of[user]:
            del self._connections_of[user]

    def close(self) -> None:
        for connection in self._peers:
            connection.close()
        self._socket.close()
        with contextlib.suppress(OSError):
            if self.path.stat().st_ino == self._inode:  # else it is another agent's
                self.path.unlink()


def _remove_socket(path: Path) -> None:
    """One that an agent has left behind. Raises Unavailable for anything else, which is somebody's."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise Unavailable(f"{path} exists and is not a socket; choose another --socket")
        path.unlink()
