"""Which process of this node is at the other end of a TCP connection of loopback, as the kernel knows it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..marks.listener import PeerProcess

PROC = Path("/proc")
UID_AT, INODE_AT = 7, 9  # columns of /proc/net/tcp: proc(5)


def process_behind(client: tuple[str, int], own: tuple[str, int]) -> PeerProcess | None:
    """The first of the processes that hold the client's socket; None where none can be seen, as in another
    PID namespace or of another user. client, own: both ends, as this process sees them."""
    found = _inode(client, own)
    if found is None:
        return None
    uid, inode = found
    link = f"socket:[{inode}]"
    holders = sorted(pid for pid in _of_user(uid) if _holds(PROC / str(pid) / "fd", link))
    return PeerProcess(holders[0], uid) if holders else None


def _inode(client: tuple[str, int], own: tuple[str, int]) -> tuple[int, int] | None:
    """User and inode of the client's socket."""
    ends = [_written(*client), _written(*own)]
    for line in (PROC / "net" / "tcp").read_text().splitlines()[1:]:
        columns = line.split()
        if columns[1:3] == ends:
            return int(columns[UID_AT]), int(columns[INODE_AT])
    return None


def _written(host: str, port: int) -> str:
    """As the table has it: the address as a number of this machine."""
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"


def _of_user(uid: int) -> Iterator[int]:
    for name in os.listdir(PROC):
        if name.isdigit():
            try:
                if os.stat(PROC / name).st_uid == uid:
                    yield int(name)
            except OSError:
                continue


def _holds(folder: Path, link: str) -> bool:
    try:
        names = os.listdir(folder)
    except OSError:  # it has ended, or is not ours to look at
        return False
    for name in names:
        with suppress(OSError):  # closed meanwhile
            if os.readlink(folder / name) == link:
                return True
    return False
