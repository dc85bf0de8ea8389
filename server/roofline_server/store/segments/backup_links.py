"""Links by which a backup keeps segments until it has copied them, in the data directory.

Whoever makes a backup has a lock on their folder. Without the lock they are of a backup that was killed: they
would keep removed data on the disk, and go at the server's start and before each removal.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ...errors import Unavailable

log = logging.getLogger(__name__)

LINKS = "backup.links"


@contextlib.contextmanager
def links_of_backup(root: Path) -> Iterator[Path]:
    """An empty folder for links. Raises OSError, and Unavailable while another backup is made."""
    links = root / LINKS
    while True:
        links.mkdir(exist_ok=True, mode=0o700)
        lock = _locked(links)
        if lock is None:
            raise Unavailable(f"another backup of {root} is under way: wait until it is done")
        if _is_at(lock, links):
            break
        os.close(lock)  # the one before has just removed it
    try:
        for path in links.iterdir():  # of a backup that was killed
            shutil.rmtree(path)
        yield links
    finally:
        shutil.rmtree(links, ignore_errors=True)
        os.close(lock)


def remove_abandoned(root: Path) -> None:
    """Remove the links of a backup that was killed."""
    links = root / LINKS
    try:
        lock = _locked(links)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("cannot look at %s (%s): it may keep removed data on the disk", links, error)
        return
    if lock is not None:
        shutil.rmtree(links, ignore_errors=True)
        os.close(lock)


def _locked(links: Path) -> int | None:
    """A descriptor of the folder with its lock; None: another has that. Raises OSError."""
    folder = os.open(links, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        return None
    return folder


def _is_at(folder: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(folder), path.stat())
    except FileNotFoundError:
        return False
