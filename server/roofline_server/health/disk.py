"""Room on disk of a data directory, and what is set apart there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..store.segments.unknown import NOTE, QUARANTINE


class Room(NamedTuple):
    """Room in the file system, bytes; None: not known."""

    free: int | None  # for this user
    size: int | None


def room(data: Path) -> Room:
    try:
        found = os.statvfs(data)
    except OSError:
        return Room(None, None)
    return Room(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def used_bytes(data: Path) -> int:
    """What the files of a data directory take on disk."""
    return sum(blocks * 512 for _, blocks in _files(str(data)))


def quarantined(data: Path) -> int:
    """How many files of segments are set apart."""
    return sum(name != NOTE for name, _ in _files(str(data / QUARANTINE)))


def _files(folder: str) -> Iterator[tuple[str, int]]:
    """Name and blocks of each file below; those that go away meanwhile are left out."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry.name, entry.stat(follow_symlinks=False).st_blocks
        except OSError:
            continue
