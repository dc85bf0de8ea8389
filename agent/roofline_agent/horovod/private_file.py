"""A file for a timeline: nobody else sees it, and it takes up no more disk than what is still to be read."""

from __future__ import annotations

import ctypes
import os
import resource
import tempfile
from collections.abc import Sequence
from typing import IO

KEEP_SIZE, PUNCH_HOLE = 1, 2  # linux/falloc.h
BLOCK = 4096
_libc = ctypes.CDLL(None, use_errno=True)


def private_file(folders: Sequence[str] | None = None) -> IO[bytes] | None:
    """A file without a name, gone with the last process that has it open; None where none can be had.

    Others open it by `path`. folders: where it may lie, the temporary folder and memory by default; only
    where blocks that have been read can be freed (holes).
    """
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        return None  # Horovod's process would be ended by SIGXFSZ: holes count towards that limit
    for folder in (tempfile.gettempdir(), "/dev/shm") if folders is None else folders:
        try:
            file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError:
            continue
        if _can_free_blocks(file.fileno()):
            return file
        file.close()
    return None


def path(file: IO[bytes]) -> str:
    """How a process started from here opens the file."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def free_blocks(descriptor: int, begin: int, end: int) -> bool:
    """Free the blocks between two offsets; whether that worked. They read as zeros then."""
    begin, end = -(-begin // BLOCK) * BLOCK, end // BLOCK * BLOCK
    if end <= begin:
        return True
    offset, length = ctypes.c_int64(begin), ctypes.c_int64(end - begin)
    try:
        return bool(_libc.fallocate(descriptor, KEEP_SIZE | PUNCH_HOLE, offset, length) == 0)
    except AttributeError:
        return False


def _can_free_blocks(descriptor: int) -> bool:
    try:
        os.pwrite(descriptor, b"x" * 4 * BLOCK, 0)
        os.fsync(descriptor)
        before = os.fstat(descriptor).st_blocks
        works = free_blocks(descriptor, 0, 4 * BLOCK) and os.fstat(descriptor).st_blocks < before
        os.ftruncate(descriptor, 0)
    except OSError:
        return False
    return works
