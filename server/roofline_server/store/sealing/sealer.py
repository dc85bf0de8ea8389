"""Moves what is in the tail and the inbox into segments, all of it or nothing."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from ...records import Incarnation
from ..catalog.catalog import Catalog, Sealing
from ..catalog.clocks import ClockRegistry
from ..catalog.name_ids import NameIds
from ..catalog.process_lifetimes import changed
from ..catalog.versions import COPY
from ..intake.inbox import Inbox
from ..intake.tail import Tail, TailBatch, Unsealed
from ..segments.files import UNKNOWN_STORE, StoreIdentity
from ..segments.leases import Leases
from ..segments.unknown import remove_unfinished
from .source import SealingSource
from .writing import Written

log = logging.getLogger(__name__)

SMALL_CATALOG = 8 << 20  # bytes
COPY_REST = 50  # times as long as it took to copy a larger one, until the next time


# The last steps of a job are complete only some seconds after it has ended: then nothing new of it is sealed.
FINISHED_S = 120.0  # after its last data: then its nodes are gone, and what is stored of its steps stays so
MOST_UNFINISHED = 100  # jobs that are looked at in one sealing, those that ended last
RANK_BYTES = 4096  # what the last steps of a rank are held to take, in addition to batches

# Writes the files of a source, whose batches take so many bytes of memory.
Writer = Callable[[SealingSource, int], Written]


class Sealer:
    """Seals one data directory. The caller sees to it that one thread at a time does."""

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        inbox: Inbox,
        tail: Tail,
        name_ids: NameIds,
        clocks: ClockRegistry,
        members: Callable[[str], list[Incarnation]],
        leases: Leases,
        damaged: dict[str, str],
        writer: Writer,
        identity: StoreIdentity = UNKNOWN_STORE,
    ) -> None:
        """damaged: path -> why, of segments that were found to be; more may be found."""
        self._identity, self._writer, self._damaged = identity, writer, damaged
        self._root, self._catalog, self._inbox, self._tail = root, catalog, inbox, tail
        self._name_ids, self._clocks, self._members, self._leases = name_ids, clocks, members, leases
        self._next_copy = 0.0
        self._copying = threading.Lock()  # a removal keeps a copy too
        self._unfinished: dict[str, _Unfinished] = {}
        self._open: tuple[Sealing, Sequence[TailBatch]] | None = None  # that failed: see `_end_open`

    def seal(self) -> int:
        """Seal the tail as it is now; returns how many batches. Safe to be killed anywhere."""
        self._end_open()
        unsealed = self._tail.now()
        if not unsealed.batches:
            self._leases.remove()
            return 0
        sealing = self._write(unsealed)
        # Batches that come wait for the lock, and the catalog takes long to write what 2,000 nodes changed.
        try:
            with self._catalog.prepared(sealing) as commit, self._tail.lock:
                self._commit(commit, sealing)
                self._tail.forget(unsealed.batches)
        except Exception:
            self._open = sealing, unsealed.batches
            with contextlib.suppress(SQLAlchemyError):
                self._end_open()
            raise
        self._tidy(sealing)
        return len(unsealed.batches)

    def _tidy(self, sealing: Sealing) -> None:
        """What the catalog has taken is not needed elsewhere."""
        self._leases.replaced(sealing.replaced)
        self.keep_copy()
        self._inbox.delete(sealing.through_id)
        self._leases.remove()

    def _commit(self, commit: Callable[[], None], sealing: Sealing) -> None:
        """A database may fail when it has committed already, as when its answer is lost."""
        try:
            commit()
        except SQLAlchemyError as error:
            if self._catalog.sealed_through() != sealing.through_id:
                raise
            log.warning("the catalog has taken what was sealed, and then failed: %s", error)

    def _end_open(self) -> None:
        """End a sealing that failed, once the catalog says whether it has taken it: another one will have the
        same batches, under another number, and nothing would know the files of this one."""
        if self._open is None:
            return
        sealing, batches = self._open
        was_taken = self._catalog.sealed_through() == sealing.through_id
        self._open = None
        if was_taken:
            self._tail.forget(batches)
            self._tidy(sealing)
        else:
            remove_unfinished(self._root, {one.job for one in sealing.segments}, sealing.through_id)

    def keep_copy(self, always: bool = False) -> bool:
        """Have a copy of the catalog, from which a lost or damaged one is rebuilt. Of a large one not each
        time, so that it takes little time and disk. False: that failed."""
        begin = time.monotonic()
        if begin < self._next_copy and not always:
            return True
        try:
            with self._copying:
                if not self._catalog.copy(self._root / COPY):
                    return True
        except (OSError, SQLAlchemyError) as error:
            log.warning("cannot copy the catalog (%s); trying again after the next sealing", error)
            return False
        if (self._root / COPY).stat().st_size > SMALL_CATALOG:
            self._next_copy = begin + COPY_REST * (time.monotonic() - begin)
        return True

    def _write(self, unsealed: Unsealed) -> Sealing:
        """Everything on disk, nothing of it true yet."""
        decoded = [batch.decoded for batch in unsealed.batches]
        begin, unfinished = time.monotonic(), self._unfinished_jobs()
        source = SealingSource(
            unsealed,
            self._identity,
            self._catalog,
            self._name_ids,
            self._clocks,
            self._members,
            self._damaged,
            unfinished,
        )
        task = source.task()
        size = sum(batch.bytes for batch in unsealed.batches)
        size += RANK_BYTES * sum(len(self._name_ids.ranks_of(job)) for job in unfinished)
        try:
            written = self._writer(source, size)
        except Exception:
            # What comes next has another number, and nothing would know these files.
            remove_unfinished(self._root, task.datasets, task.number)
            raise
        self._damaged.update(written.damaged)
        for job, settled in written.settled.items():
            self._clocks.settle(job, settled)
        self._note_unfinished(written, begin)
        lifetimes = changed(unsealed.process_lifetimes, decoded)
        return Sealing(written.segments, written.replaced, written.progress, lifetimes, task.number)

    def _unfinished_jobs(self) -> list[str]:
        """Jobs whose last steps were not complete when their last data were sealed; they still have some."""
        least = time.monotonic() - FINISHED_S
        self._unfinished = {job: one for job, one in self._unfinished.items() if one.since_s > least}
        newest = list(self._unfinished)[-MOST_UNFINISHED:]
        return [job for job in newest if any(s.dataset == "marks" for s in self._catalog.segments(job))]

    def _note_unfinished(self, written: Written, now_s: float) -> None:
        marks: dict[str, int] = {}
        for segment in written.segments:
            if segment.dataset == "marks":
                marks[segment.job] = max(segment.end_ns, marks.get(segment.job, 0))
        for job, progress in written.progress.items():
            before = self._unfinished.pop(job, None)
            one = _Unfinished(now_s, marks[job]) if job in marks else before
            if one is not None and progress.through_ns < one.end_ns:
                self._unfinished[job] = one


class _Unfinished(NamedTuple):
    """since_s: when its last marks were sealed, monotonic; end_ns: of these, server time."""

    since_s: float
    end_ns: int
