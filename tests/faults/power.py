"""What a power cut takes of what a killed process wrote: all, or some, of what no fsync had made durable.

The journal (written by shim.c) has an entry for each write, truncation, fsync, rename and removal, in order:
six int64 (what, place, bytes written, size of the file before, bytes of the path, bytes kept), the path, and
the bytes that were there before. Of a file, writes since its last fsync are undone, or by chance stay, each
for itself, as disks write in any order. A rename is undone unless its folder was fsynced since. Removals
and new names of files that were written are taken for durable.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ENTRY = struct.Struct("=qqqqqq")
SURVIVES = 0.5  # a write, where some do


class Entry(NamedTuple):
    """One call. at: place of a write, new size of a truncation."""

    what: str
    path: str
    to: str  # of a rename
    at: int
    size: int
    size_before: int
    kept: bytes


class Volatile(NamedTuple):
    """What is not durable: entries of each file as it is named now, and renames."""

    changes: dict[str, list[Entry]]
    renames: list[tuple[str, str]]


def entries(data: bytes) -> Iterator[Entry]:
    at = 0
    while at + ENTRY.size <= len(data):
        what, place, size, size_before, size_path, size_kept = ENTRY.unpack_from(data, at)
        at += ENTRY.size
        path, _, to = data[at : at + size_path].decode().partition("\n")
        at += size_path
        yield Entry(chr(what), path, to, place, size, size_before, data[at : at + size_kept])
        at += size_kept


def volatile(journal: bytes) -> Volatile:
    """What of all this no fsync has made durable."""
    found = Volatile({}, [])
    for one in entries(journal):
        if one.what == "S":
            found.changes.pop(one.path, None)
            found.renames[:] = [pair for pair in found.renames if os.path.dirname(pair[1]) != one.path]
        elif one.what == "R":
            found.renames.append((one.path, one.to))
            found.changes[one.to] = found.changes.pop(one.path, [])
        elif one.what == "U":
            found.changes.pop(one.path, None)
            found.renames[:] = [pair for pair in found.renames if pair[1] != one.path]
        else:
            found.changes.setdefault(one.path, []).append(one)
    return found


def cut(journal: Path, chance: random.Random) -> int:
    """Undo what is not durable, and begin a new journal; how many changes that were. No process may run."""
    found = volatile(journal.read_bytes())
    survives = chance.choice((0.0, SURVIVES))
    count = 0
    for path, changes in found.changes.items():
        # Memory that processes shared is no part of the disk, and is made again.
        if not path.endswith("-shm") and os.path.exists(path):
            count += _undo(path, changes, chance, survives)
    for before, after in reversed(found.renames):
        if os.path.exists(after) and chance.random() >= survives:
            os.rename(after, before)
            count += 1
    journal.write_bytes(b"")
    return count


def _undo(path: str, changes: list[Entry], chance: random.Random, survives: float) -> int:
    """Take all back, and make some of them again."""
    again: list[tuple[int, bytes]] = []
    with open(path, "r+b") as file:
        for one in reversed(changes):
            if one.what == "W" and chance.random() < survives:
                file.seek(one.at)
                again.insert(0, (one.at, file.read(one.size)))
            file.seek(one.at)
            file.write(one.kept)
            file.truncate(one.size_before)
        for at, data in again:
            file.seek(at)
            file.write(data)
    return len(changes) - len(again)
