"""Keeps batches on this node's disk until the server has acknowledged them.

One transaction per batch: what the server has by now is deleted with the next batch, or at the end. An agent
that is killed in between sends a batch twice at most, and the server counts it once.

Each process that opens a spool begins a *lineage*, a series of numbers of its own: copies of a spool, or one
that was put back from a backup, never give different batches the same number. A batch carries its lineage.

Bounded: beyond `limit_bytes` the oldest batches are dropped, counted, and the count is reported. A full disk
costs durability, not data: batches then wait in memory, fewer of them. SQLite without fsync survives a killed
agent, which is what happens; a power cut takes the training with it anyway. It may leave a damaged file: that
one is set aside, what waited in it is counted as lost, and a new file is begun under the same identity. An
agent that starts on a full disk has no file at all: what waits in the one there is left to the next start.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import Unavailable
from .memory_queue import MEMORY_BYTES, MemoryQueue
from .pending import MAX_SEQUENCE, Pending
from .spool_file import SpoolFile, cause_of, is_damage, is_full, read_state, refuse_later_release

log = logging.getLogger(__name__)


class Spool:
    """A queue of encoded batches by sequence number; safe to use from two threads."""

    def __init__(
        self,
        path: Path,
        limit_bytes: int = 256 << 20,
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
    ) -> None:
        """Open or create the spool; in memory on a full disk. Raises Unavailable when the file cannot be
        used."""
        self._file = SpoolFile(path, connect)
        self._memory = MemoryQueue(limit_bytes)  # what the file did not take
        self._limit, self._bytes = limit_bytes, 0  # of what waits in the file
        self._lock = threading.Lock()
        self._disk_failed = False
        self._why_in_memory = ""  # why batches were last not written to the file
        self._newest: Pending | None = None  # in the file, when it is the last of all
        self._acked = self._last = 0
        self._acked_out_of_order: set[int] = set()  # above `_acked`, and still in the file
        self._stale = False  # the file still has batches that are acknowledged
        self.dropped = 0
        self.damaged = 0  # lost with a file that was set aside, or unreadable; not among those dropped
        self.refused = 0  # by the server, for good
        self._reported: dict[str, int] = {}  # of all three, by why
        self.lineage = uuid.uuid4().hex  # of the batches that are made now
        self.in_order_through = 0  # no batch may overtake those up to here
        self.numbering = threading.RLock()  # held from next_sequence() to append()
        try:
            refuse_later_release(path)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._open_where_there_is_room()
        except (OSError, sqlite3.Error, ValueError) as error:
            raise Unavailable(f"cannot keep a spool at {path}: {error}; choose another --state") from None

    def _open_where_there_is_room(self) -> None:
        try:
            try:
                self._open()
            except (sqlite3.Error, ValueError) as error:
                if not is_damage(error):
                    raise
                self._set_aside(error)
                self._open()
        except (OSError, sqlite3.Error) as error:
            if not is_full(self._file.path.parent):
                raise
            self._open_in_memory(error)

    def _open(self) -> None:
        self._file.open()
        self.dropped = self._file.delete_impossible()
        self._acked = self._file.acked()
        self._last = self.in_order_through = max(self._file.newest(), self._acked)
        self._bytes = self._file.size(self._acked, self._last)

    def _open_in_memory(self, error: Exception) -> None:
        """Go on as the same agent where the disk is full. Numbers go on behind those in the file."""
        self._file.close()
        self._why_in_memory = str(error)
        state = read_state(self._file.path)
        self._acked, self._last = state.acked, state.last
        self.in_order_through = self._last
        log.error(
            "the disk of the spool %s is full (%s): batches wait in memory until the agent is started again",
            self._file.path,
            error,
        )
        self._begin_in_memory(state.agent)

    def _begin_in_memory(self, agent: str = "") -> None:
        self._bytes = 0
        self._limit = min(self._limit, MEMORY_BYTES)
        self._file.open_in_memory(agent)

    def _set_aside(self, error: Exception) -> None:
        aside, lost = self._file.set_aside()
        self.damaged += lost
        log.error(
            "the spool %s is damaged (%s): it is now %s, a new one begins", self._file.path, error, aside
        )

    def _begin_anew(self, error: sqlite3.Error) -> None:
        """Go on with a new file, in the same lineage, where this one is damaged."""
        self._bytes, self._newest, self._stale = 0, None, False
        self._acked_out_of_order.clear()
        try:
            self._set_aside(error)
            self._file.open()
        except (OSError, sqlite3.Error) as problem:
            self._why_in_memory = cause_of(problem, self._file.path.parent)
            log.error("no new spool can be begun (%s): batches wait in memory", self._why_in_memory)
            self._begin_in_memory()

    def _size(self, after: int, through: int) -> int:
        """Bytes of the batches in the file between two sequences; of a damaged one nothing waits."""
        try:
            return self._file.size(after, through)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            self._begin_anew(error)
            return 0

    @property
    def bytes_waiting(self) -> int:
        return self._bytes + self._memory.bytes_waiting

    def next_sequence(self) -> int:
        """The number the next batch must carry."""
        return self._last + 1

    @property
    def acked(self) -> int:
        """Everything up to here is durable at the server."""
        return self._acked

    def begin_lineage(self) -> None:
        """Another process numbers its batches as this one does: those made from now on are told apart."""
        self.lineage = uuid.uuid4().hex

    def get(self, sequence: int) -> bytes | None:
        """A batch that waits; None: it has gone."""
        found = self.pending(sequence - 1, 1)
        return found[0].data if found and found[0].sequence == sequence else None

    def skip_to(self, sequence: int) -> None:
        """Continue behind a sequence that the server has (this spool was lost and created again). Only for
        servers that know no lineages."""
        with self._lock:
            self._last = max(self._last, min(sequence, MAX_SEQUENCE))

    def append(self, sequence: int, data: bytes, has_ends: bool = False) -> None:
        """Keep a batch; on a full spool the oldest go. has_ends: a process may have ended in it."""
        with self._lock:
            self._last = max(self._last, sequence)
            if has_ends:
                self.in_order_through = self._last
            try:
                with self._file.transaction():
                    if self._stale:
                        self._delete_acked()
                    self._file.insert(sequence, data)
                self._stale = False
                self._acked_out_of_order.clear()
            except sqlite3.Error as error:
                if is_damage(error):
                    self._begin_anew(error)
                self._keep_in_memory(sequence, data, error)
            else:
                self._disk_failed = False
                self._newest = Pending(sequence, data) if sequence == self._last else None
                self._bytes += len(data)
                self._write_memory()
            try:
                while self._bytes > self._limit:
                    self._drop_oldest()
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                self._begin_anew(error)

    def _drop_oldest(self) -> None:
        self._newest = None
        sequence, size = self._file.oldest()
        self._file.delete([sequence])
        self._bytes -= size
        self.dropped += 1

    def _delete_acked(self) -> None:
        self._file.delete_through(self._acked)
        self._file.delete(self._acked_out_of_order)

    def _keep_in_memory(self, sequence: int, data: bytes, error: Exception) -> None:
        self._why_in_memory = cause_of(error, self._file.path.parent)
        if not self._disk_failed:
            log.warning("cannot write the spool (%s): batches wait in memory", self._why_in_memory)
        self._disk_failed = True
        self._newest = None
        self.dropped += self._memory.append(sequence, data)

    def _write_memory(self) -> None:
        """Put on disk what waits in memory, the oldest first, as far as there is room again."""
        try:
            for sequence, data in self._memory.oldest_first():
                self._file.insert(sequence, data)
                self._memory.remove(sequence)
                self._bytes += len(data)
        except sqlite3.Error as error:
            self._why_in_memory = cause_of(error, self._file.path.parent)

    def pending(self, after: int, limit: int, through: int = MAX_SEQUENCE) -> list[Pending]:
        """The oldest batches that wait with a sequence above `after`, up to `through`."""
        with self._lock:
            after = max(after, self._acked)
            if self._newest is not None and after >= self._newest.sequence - 1:
                found = [self._newest] if after < self._newest.sequence <= through else []
            else:
                passed_over = sum(one > after for one in self._acked_out_of_order)
                found = self._in_file(after, through, limit + passed_over)
                found = sorted([*found, *self._memory.between(after, through)])
            return [one for one in found if one.sequence not in self._acked_out_of_order][:limit]

    def _in_file(self, after: int, through: int, limit: int) -> list[Pending]:
        try:
            return self._file.read(after, through, limit)
        except sqlite3.Error as error:
            if not is_damage(error):  # a disk that does not answer now may do so later
                raise Unavailable(f"the spool {self._file.path} cannot be read now ({error})") from None
            self._begin_anew(error)
            return []

    def ack(self, sequence: int) -> None:
        """Forget everything up to and including `sequence`."""
        with self._lock:
            sequence = min(sequence, self._last)  # nobody has what was not made yet
            self._memory.remove_through(sequence)
            if sequence <= self._acked:
                return
            before, self._acked, self._stale = self._acked, sequence, True
            if sequence >= self._last:
                self._bytes = 0
            else:
                counted = sum(self._size(one - 1, one) for one in self._acked_out_of_order if one <= sequence)
                size = self._size(before, sequence)  # first: it may begin a new file
                self._bytes = max(0, self._bytes - (size - counted))
            self._acked_out_of_order = {one for one in self._acked_out_of_order if one > sequence}

    def ack_single(self, sequences: Sequence[int]) -> None:
        """These are at the server, whatever is with those before them."""
        with self._lock:
            for sequence in sequences:
                self._memory.remove(sequence)
                if self._waits_in_file(sequence) and sequence <= self._last:
                    size = self._size(sequence - 1, sequence)
                    self._bytes -= size
                    self._acked_out_of_order.add(sequence)
                    self._stale = True
            if self._bytes == 0 and not self._memory:
                self._acked = self._last
                self._acked_out_of_order.clear()

    def drop_refused(self, sequence: int) -> None:
        """Give up one batch that the server can never take."""
        with self._lock:
            self.refused += 1
        self.remove(sequence)

    def drop_damaged(self, sequence: int) -> None:
        """Give up one batch that cannot be read any more."""
        with self._lock:
            self.damaged += 1
        self.remove(sequence)

    def take_losses(self) -> list[tuple[int, str]]:
        """How many batches were lost since the last call, and why."""
        with self._lock:
            lost = {
                "spool full": self.dropped,
                "spool damaged": self.damaged,
                "refused by the server": self.refused,
            }
            new = [(count - self._reported.get(why, 0), why) for why, count in lost.items()]
            self._reported = lost
        return [(count, why) for count, why in new if count]

    def remove(self, sequence: int) -> None:
        """Keep a batch no longer."""
        with self._lock:
            self._newest = None
            self._memory.remove(sequence)
            with contextlib.suppress(sqlite3.Error):  # on a full disk it stays, and is refused once more
                if self._waits_in_file(sequence):
                    size = self._size(sequence - 1, sequence)
                    self._bytes -= size
                self._file.delete([sequence])

    def _waits_in_file(self, sequence: int) -> bool:
        """Whether it is not acknowledged, so that it waits there if it is there."""
        return sequence > self._acked and sequence not in self._acked_out_of_order

    def identity(self, fresh: str) -> str:
        """The name this agent keeps over restarts; `fresh` becomes it the first time."""
        with self._lock:
            return self._file.identity(fresh)

    def close(self) -> None:
        with self._lock:
            with contextlib.suppress(sqlite3.Error):  # on a full disk: they are sent once more
                self._file.keep_acked(self._acked)
                self._delete_acked()
            self._write_memory()
            if lost := len(self._memory) + self._waiting_without_file():
                log.error("%d batches that wait in memory are lost: %s", lost, self._why_in_memory)
            self._file.close()

    def _waiting_without_file(self) -> int:
        """Batches in a database that has no file."""
        with contextlib.suppress(sqlite3.Error):
            return self._file.count() if self._file.in_memory else 0
        return 0
