"""Files of the server that root writes too, for example by `sudo roofline-server token new`.

They belong to the owner of the folder that they are in: otherwise a server that runs as a user of its own
could not read them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def open_private(path: Path, flags: int) -> int:
    """The descriptor of a file that its owner alone may read; made if it is missing. Raises OSError."""
    opened = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _give(opened, path.parent)
    return opened


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Of all who name this file, threads and processes, one at a time goes on. Raises OSError."""
    lock = open_private(path, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def make_private(folder: Path) -> None:
    """A folder that its owner alone may enter. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _give(folder, folder.parent)


def _give(what: int | Path, folder: Path) -> None:
    if os.geteuid() == 0:
        of = folder.stat()
        os.chown(what, of.st_uid, of.st_gid)
