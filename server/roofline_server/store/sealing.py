"""Sealing: moves what is in the tail and the inbox into segments, all of it or nothing; merges small ones.

Rows are put together and written some at a time, one dataset of one job after the other, so that a sealing
takes little memory beside the tail, however much is in it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from ..records import MAX_TIME_NS, NODE_JOB, Frame, Table, concatenate, rows, take
from .catalog.catalog import Catalog, Progress, Sealing
from .catalog.clocks import ClockRegistry, Clocks
from .catalog.process_lifetimes import changed
from .catalog.versions import COPY
from .intake.inbox import Inbox
from .intake.tail import Tail, Unsealed, begins, stretches
from .segments.compaction import Compaction
from .segments.files import PARTS, UNKNOWN_STORE, Piece, Segment, StoreIdentity, write
from .segments.frames import tables_of
from .segments.leases import Leases
from .segments.reader import on_server_clock
from .steps.deltas import Deltas
from .steps.sealed import NewData, NewSteps, SealedSteps

log = logging.getLogger(__name__)

# What odd data raise; a full disk or a broken catalog is something else.
DATA_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

PIECE_BYTES = 32 << 20  # of rows that are put together and written at once
SMALL_CATALOG = 8 << 20  # bytes
COPY_REST = 50  # times as long as it took to copy a larger one, until the next time


class Sealer:
    """Seals one data directory. The caller sees to it that one thread at a time does."""

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        inbox: Inbox,
        tail: Tail,
        clocks: ClockRegistry,
        deltas: Deltas,
        steps: SealedSteps,
        leases: Leases,
        identity: StoreIdentity = UNKNOWN_STORE,
    ) -> None:
        self._identity = identity
        self._root, self._catalog, self._inbox, self._tail = root, catalog, inbox, tail
        self._clocks, self._deltas, self._steps, self._leases = clocks, deltas, steps, leases
        self._next_copy = 0.0

    def seal(self) -> int:
        """Seal the tail as it is now; returns how many batches. Safe to be killed anywhere."""
        unsealed = self._tail.now()
        if not unsealed.batches:
            self._leases.remove()
            return 0
        sealing = self._write(unsealed)
        # Batches that come wait for the lock, and the catalog takes long to write what 2,000 nodes changed.
        with self._catalog.prepared(sealing) as commit, self._tail.lock:
            commit()
            self._tail.forget(unsealed.batches)
        self._leases.replaced(sealing.replaced)
        self.keep_copy()
        self._inbox.delete(sealing.through_id)
        self._leases.remove()
        return len(unsealed.batches)

    def keep_copy(self, always: bool = False) -> None:
        """Have a copy of the catalog, of which a lost or damaged one is made anew. Of a large one not each
        time, so that it takes little time and disk."""
        begin = time.monotonic()
        if begin < self._next_copy and not always:
            return
        try:
            if not self._catalog.copy(self._root / COPY):
                return
        except (OSError, SQLAlchemyError) as error:
            log.warning("cannot copy the catalog (%s); trying again after the next sealing", error)
            return
        if (self._root / COPY).stat().st_size > SMALL_CATALOG:
            self._next_copy = begin + COPY_REST * (time.monotonic() - begin)

    def _write(self, unsealed: Unsealed) -> Sealing:
        """Everything on disk, nothing of it true yet."""
        decoded = [batch.decoded for batch in unsealed.batches]
        number = unsealed.batches[-1].id
        sealing = Sealing([], [], {}, changed(unsealed.process_lifetimes, decoded), number)
        compaction = Compaction(self._root, number, self._identity)
        frames = [
            [f for batch in part for f in batch.decoded.frames if rows(f.base)]
            for part in stretches(unsealed.batches)
        ]
        begun = begins(unsealed.batches)
        for name, mine in _grouped(frames, lambda frame: frame.job).items():
            lifetimes = self._deltas.lifetimes_of(name, unsealed.process_lifetimes)
            clocks = self._clocks.of_job(name, lifetimes)
            job = _JobWriter(self._root, name, number, clocks, self._deltas, self._identity)
            segments, replaced, progress = job.write(mine), [], Progress()
            if name != NODE_JOB:
                made = self._make_steps(job, segments, unsealed.reported, begun[name])
                segments += made.segments
                replaced += made.replaced
                progress = sealing.progress[name] = made.progress
            stored = [s for s in self._catalog.segments(name) if s.path not in replaced]
            # Raw data from here on are read at every sealing and view: all, where nothing is done yet.
            read_ns = MAX_TIME_NS
            if progress.resume_ns:
                read_ns = progress.resume_ns - self._deltas.margin_ns(name)
            merged = compaction.merge(stored, read_ns)
            sealing.segments.extend([*segments, *merged.segments])
            sealing.replaced.extend([*replaced, *merged.replaced])
        return sealing

    def _make_steps(
        self,
        job: _JobWriter,
        segments: Sequence[Segment],
        reported: dict[int, int],
        begun: Mapping[int, int],
    ) -> NewSteps:
        new = NewData(job.name, segments, job.latest(), job.clocks, reported, begun)
        try:
            return self._steps.make(new, job.put)
        except DATA_ERRORS:
            # What this job holds cannot be understood; that is no reason to keep all others in the inbox.
            log.exception("job %s: its step deltas cannot be made; its raw data are kept", job.name)
            return NewSteps([], [], self._catalog.progress(job.name))


class _JobWriter:
    """Writes what one sealing brings of a job."""

    def __init__(
        self, root: Path, name: str, number: int, clocks: Clocks, deltas: Deltas, identity: StoreIdentity
    ) -> None:
        self.name, self.clocks, self._identity = name, clocks, identity
        self._root, self._number, self._deltas = root, number, deltas
        self._parts: dict[str, list[Table]] = {}
        self._latest: dict[str, list[Table]] = {}

    def write(self, frames: Sequence[Sequence[Frame]]) -> list[Segment]:
        """Segments of all frames, and of the sums of parts of nodes in them. frames: by stretch."""
        segments = [
            self._write(dataset, self._pieces(dataset, mine))
            for dataset, mine in _grouped(frames, lambda frame: frame.dataset).items()
        ]
        return segments + [self.put(f"{PARTS}{name}", concatenate(t)) for name, t in self._parts.items()]

    def put(self, dataset: str, table: Table) -> Segment:
        """Segment of a table that is on the server's clock."""
        return self._write(dataset, [_piece(table, table)])

    def _write(self, dataset: str, pieces: Iterable[Piece]) -> Segment:
        return write(self._root, self.name, dataset, self._number, pieces, identity=self._identity)

    def latest(self) -> dict[str, Table]:
        """What makes step deltas outdated: marks, and of the rest the first row of each node."""
        return {dataset: concatenate(tables) for dataset, tables in self._latest.items()}

    def _pieces(self, dataset: str, frames: Sequence[Sequence[Frame]]) -> Iterator[Piece]:
        for table in tables_of(frames, PIECE_BYTES):
            if self.name != NODE_JOB:
                self._latest.setdefault(dataset, []).append(_outline(dataset, table))
                for name, parts in self._deltas.sum_parts(self.name, {dataset: table}, self.clocks).items():
                    self._parts.setdefault(name, []).append(parts)
            yield _piece(table, on_server_clock(table, self.clocks))
            del table  # before the next is made


def _piece(table: Table, timed: Table) -> Piece:
    begin = timed["time_ns"] if "time_ns" in timed else timed["begin_ns"]
    return Piece(table, int(begin.min()), int(timed.get("end_ns", begin).max()))


def _outline(dataset: str, table: Table) -> Table:
    """See `_JobWriter.latest`."""
    if dataset == "marks":
        return {name: table[name] for name in ("rank", "kind", "node", "time_ns")}
    by_time = np.argsort(table["time_ns"], kind="stable")
    _, first = np.unique(table["node"][by_time], return_index=True)
    return take({name: table[name] for name in ("node", "time_ns")}, by_time[first])


def _grouped(parts: Sequence[Sequence[Frame]], key: Callable[[Frame], str]) -> dict[str, list[list[Frame]]]:
    """The frames of each key, in the same parts."""
    found: dict[str, list[list[Frame]]] = {}
    for number, frames in enumerate(parts):
        for frame in frames:
            found.setdefault(key(frame), [[] for _ in parts])[number].append(frame)
    return found
