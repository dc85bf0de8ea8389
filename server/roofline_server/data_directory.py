"""The data directory: where it is by default, and the lock that keeps a second server out of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path

from roofline.places import state_home

from .errors import Unavailable

# What sealed for a killed server ends within that time: at a load of 13 it took over 0.5 s.
LOCK_TRIES, LOCK_AGAIN_S = 150, 0.02


def default_data(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the data lives by default: the XDG state directory."""
    return state_home(environ) / "roofline" / "server"


def lock_directory(data: Path) -> int:
    """Makes sure that no other server works there, until the descriptor is closed."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        if data.stat().st_uid == os.getuid():
            data.chmod(0o700)  # jobs are of several users, and none may read those of others
        lock = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(
            f"cannot write the data directory {data}: {error.strerror}; choose another --data"
        ) from None
    try:
        _take(lock)
    except OSError:
        os.close(lock)
        raise Unavailable(
            f"another roofline-server works with {data}; stop it, or choose another --data"
        ) from None
    return lock


def _take(lock: int) -> None:
    """Raises OSError where another server has it. `roofline-server status` holds it for a moment to look."""
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(LOCK_AGAIN_S)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
