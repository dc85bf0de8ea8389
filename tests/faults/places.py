"""The fault matrix of the disk: where the server touches it, and what can happen there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .shim import (
    EINTR,
    EIO,
    EMFILE,
    ENOSPC,
    KILL_AFTER,
    KILL_BEFORE,
    POWER_AFTER,
    POWER_BEFORE,
    SHORT,
    SLOW,
    TORN,
    Fault,
)

RUNNING, STARTING, STOPPING = "running", "starting", "stopping"

FAULTS: dict[str, tuple[Fault, ...]] = {
    "write": (KILL_BEFORE, KILL_AFTER, TORN, POWER_AFTER, EIO, ENOSPC, SHORT, EINTR, SLOW),
    "sync": (KILL_BEFORE, KILL_AFTER, POWER_BEFORE, POWER_AFTER, EIO, ENOSPC, EINTR, SLOW),
    "rename": (KILL_BEFORE, KILL_AFTER, POWER_BEFORE, POWER_AFTER, EIO, ENOSPC),
    "open": (KILL_BEFORE, EIO, ENOSPC, EMFILE),
    "unlink": (KILL_BEFORE, KILL_AFTER, POWER_AFTER, EIO),
    "mkdir": (KILL_BEFORE, KILL_AFTER, ENOSPC),
    "read": (EIO, SHORT, EINTR),
}

SEGMENT, MERGED = "?" * 12, "?" * 12 + "-" + "?" * 12
RAW = "*/segments/job-*/samples_*"


class Place(NamedTuple):
    """A kind of call on some files at some time. skip: at most so many of them are left alone first."""

    name: str
    call: str
    pattern: str
    when: str = RUNNING
    skip: int = 8


class Cell(NamedTuple):
    """One fault at one place."""

    place: Place
    fault: Fault

    @property
    def name(self) -> str:
        return f"{self.place.name}: {self.fault.name}"


PLACES: tuple[Place, ...] = (
    Place("inbox append, write", "write", "*/inbox.db-wal", skip=60),
    Place("inbox append, fsync", "sync", "*/inbox.db-wal", skip=20),
    Place("inbox checkpoint, write", "write", "*/inbox.db", skip=4),
    Place("inbox checkpoint, fsync", "sync", "*/inbox.db", skip=0),
    Place("catalog commit, write", "write", "*/catalog.db-wal", skip=60),
    Place("catalog commit, fsync", "sync", "*/catalog.db-wal", skip=12),
    Place("sealing, folder", "mkdir", "*/segments/*", skip=4),
    Place("sealing, open", "open", f"*/segments/*/{SEGMENT}.tmp", skip=20),
    Place("sealing, write", "write", f"*/segments/*/{SEGMENT}.tmp", skip=100),
    Place("sealing, fsync", "sync", f"*/segments/*/{SEGMENT}.tmp", skip=20),
    Place("sealing, rename", "rename", f"*/segments/*/{SEGMENT}.tmp", skip=20),
    # Names of folders of datasets, unlike those of files, have no "p" at the end.
    Place("sealing, fsync of the folder", "sync", "*/segments/*/*[!p]", skip=20),
    Place("merging, open", "open", f"{RAW}/{MERGED}.tmp", skip=0),
    Place("merging, read", "read", f"{RAW}/*.parquet", skip=20),
    Place("merging, write", "write", f"{RAW}/{MERGED}.tmp", skip=1),
    Place("merging, fsync", "sync", f"{RAW}/{MERGED}.tmp", skip=0),
    Place("merging, rename", "rename", f"{RAW}/{MERGED}.tmp", skip=0),
    Place("merging, removal", "unlink", f"{RAW}/*.parquet", skip=4),
    Place("start, inbox opened", "open", "*/inbox.db", STARTING, skip=0),
    Place("start, inbox written", "write", "*/inbox.db*", STARTING, skip=2),
    Place("start, catalog opened", "open", "*/catalog.db", STARTING, skip=0),
    Place("start, catalog written", "write", "*/catalog.db-wal", STARTING, skip=2),
    Place("start, tidy", "unlink", "*/segments/*", STARTING, skip=1),
    Place("stop, sealing written", "write", "*/segments/*.tmp", STOPPING, skip=8),
    Place("stop, inbox checkpoint", "write", "*/inbox.db", STOPPING, skip=2),
    Place("stop, catalog checkpoint", "write", "*/catalog.db", STOPPING, skip=2),
    Place("stop, catalog fsync", "sync", "*/catalog.db*", STOPPING, skip=1),
)


def cells() -> Iterator[Cell]:
    """The whole matrix."""
    for place in PLACES:
        for fault in FAULTS[place.call]:
            yield Cell(place, fault)
