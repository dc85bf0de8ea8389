"""How a server that runs is found from its data directory: a file that says where it is, a socket to ask it,
and the lock, which alone says whether it lives."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

FILE, SOCKET, LOCK = "server.json", "server.sock", "lock"


@dataclass(frozen=True)
class Running:
    """What a server says of itself as it starts."""

    pid: int
    address: str
    http: str  # URL; "": none
    started: float  # UNIX time, s
    version: str


def write(data: Path, running: Running) -> None:
    """Raises OSError."""
    new = data / f"{FILE}.new"
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(running), file)
    os.replace(new, data / FILE)


def read(data: Path) -> Running | None:
    """None where there is none, or none that can be read."""
    try:
        found = json.loads((data / FILE).read_text())
        return Running(**found) if isinstance(found, dict) else None
    except (OSError, ValueError, TypeError):
        return None


def remove(data: Path) -> None:
    for name in (FILE, SOCKET):
        with contextlib.suppress(OSError):
            os.unlink(data / name)


def is_locked(data: Path) -> bool:
    """Whether a server works there. Raises OSError where this user may not know."""
    try:
        lock = os.open(data / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def socket_of(data: Path) -> socket.socket:
    """A socket that this user's programs reach the server by. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):  # of a server that was killed
        os.unlink(data / SOCKET)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        with _path(data) as path:
            made.bind(path)
        os.chmod(data / SOCKET, 0o600)
        made.listen()
    except OSError:
        made.close()
        raise
    return made


def connected(data: Path, timeout_s: float) -> socket.socket:
    """Raises OSError where no server answers."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.settimeout(timeout_s)
        with _path(data) as path:
            made.connect(path)
    except OSError:
        made.close()
        raise
    return made


@contextlib.contextmanager
def _path(data: Path) -> Iterator[str]:
    """The socket's path for the kernel, which takes 107 characters: data directories may be deeper."""
    folder = os.open(data, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)
