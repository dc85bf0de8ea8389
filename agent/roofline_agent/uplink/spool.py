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
import errno
import logging
import os
import re
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from .. import __version__
from ..errors import Unavailable

log = logging.getLogger(__name__)

MEMORY_BATCHES, MEMORY_BYTES = 512, 64 << 20
MAX_SEQUENCE = 2**31  # so many batches no agent makes; a server that says more is wrong
LEAST_ROOM = 128 << 10  # bytes: what SQLite makes next to the file, and its first pages
_NAME = re.compile(r"[0-9a-f]{32}")  # of an agent
FORMAT = 1  # of the file; earlier ones say none
_SCHEMA = """
create table if not exists batch (sequence integer primary key, data blob not null) strict;
create table if not exists state (name text primary key, value text not null) strict, without rowid;
"""


class Pending(NamedTuple):
    sequence: int
    data: bytes


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
        self._path, self._connect = path, connect
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._memory: dict[int, bytes] = {}
        self._disk_failed = False
        self._newest: Pending | None = None  # on disk, when it is the last of all
        self._stale = False  # the disk still has batches up to `_acked`, or of `_kept`
        self._kept: set[int] = set()  # above `_acked` at the server, and still on disk
        self._agent = ""  # the name that the file keeps
        self.dropped = 0
        self.damaged = 0  # lost with a file that was set aside, or unreadable; not among those dropped
        self.refused = 0  # by the server, for good
        self._reported: dict[str, int] = {}  # of all three, by why
        self.lineage = uuid.uuid4().hex  # of the batches that are made now
        self.in_order_through = 0  # no batch may overtake those up to here
        self.numbering = threading.RLock()  # held from next_sequence() to append()
        try:
            _refuse_later(path)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._open_where_there_is_room()
        except (OSError, sqlite3.Error, ValueError) as error:
            raise Unavailable(f"cannot keep a spool at {path}: {error}; choose another --state") from None

    def _open_where_there_is_room(self) -> None:
        try:
            try:
                self._open()
            except (sqlite3.Error, ValueError) as error:
                if not _is_damage(error):
                    raise
                self._set_aside(error)
                self._open()
        except (OSError, sqlite3.Error) as error:
            if not _is_full(self._path.parent):
                raise
            self._open_in_memory(error)

    def _open(self) -> None:
        self._begin_file()
        self._acked = self._acked_before()
        newest = self._db.execute("select max(sequence) from batch").fetchone()[0]
        self._last = self.in_order_through = max(newest or 0, self._acked)
        self._bytes = self._size_on_disk(self._acked, self._last)

    def _begin_file(self) -> None:
        self._path.touch(0o600)  # it holds what ranks of several users did
        self._prepare(self._connect(self._path, check_same_thread=False, isolation_level=None))

    def _open_in_memory(self, error: Exception) -> None:
        """Go on as the same agent where the disk is full. Numbers go on behind those in the file."""
        if hasattr(self, "_db"):
            self._db.close()
        agent, self._acked, self._last = _state_of(self._path)
        self._agent = self._agent or agent
        self.in_order_through = self._last
        log.error(
            "the disk of the spool %s is full (%s): batches wait in memory until the agent is started again",
            self._path,
            error,
        )
        self._begin_in_memory()

    def _begin_in_memory(self) -> None:
        self._bytes = 0
        self._limit = min(self._limit, MEMORY_BYTES)
        self._prepare(self._connect(":memory:", check_same_thread=False, isolation_level=None))

    def _prepare(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.executescript("pragma journal_mode=wal; pragma synchronous=off;" + _SCHEMA)
        own = [("format", str(FORMAT)), ("release", __version__)]
        own += [("agent", self._agent)] if self._agent else []
        db.executemany("insert or replace into state values (?, ?)", own)

    def _set_aside(self, error: Exception) -> None:
        """Move the damaged file out of the way, with its log; of earlier ones none is kept."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        for earlier in self._path.parent.glob(f"{self._path.name}.damaged-*"):
            earlier.unlink()
        when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        aside = self._path.with_name(f"{self._path.name}.damaged-{when}")
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                self._path.with_name(self._path.name + suffix).rename(f"{aside}{suffix}")
        agent, waiting = _what_is_left(aside)
        self._agent = self._agent or agent
        self.damaged += waiting
        log.error(
            "the spool %s is damaged (%s): it is now %s, a new one begins", self._path, error, aside.name
        )

    def _begin_anew(self, error: sqlite3.Error) -> None:
        """Go on with a new file, in the same lineage, where this one is damaged."""
        self._bytes, self._newest, self._stale = 0, None, False
        self._kept.clear()
        try:
            self._set_aside(error)
            self._begin_file()
        except (OSError, sqlite3.Error) as problem:
            log.error("no new spool can be begun (%s): batches wait in memory", problem)
            self._begin_in_memory()

    def _acked_before(self) -> int:
        """What the last process knew to be acknowledged. Numbers that cannot be, which a server once made an
        agent take, are given up: nothing could follow them."""
        self.dropped = self._db.execute("delete from batch where sequence > ?", (MAX_SEQUENCE,)).rowcount
        acked = self._db.execute("select value from state where name = 'acked'").fetchone()
        number = int(acked[0]) if acked else 0
        return number if number <= MAX_SEQUENCE else 0

    def _size_on_disk(self, after: int, through: int) -> int:
        """Bytes of the batches on disk between two sequences."""
        query = "select coalesce(sum(length(data)), 0) from batch where sequence > ? and sequence <= ?"
        return int(self._db.execute(query, (after, through)).fetchone()[0])

    def _size(self, after: int, through: int) -> int:
        """The same; of a damaged file nothing waits."""
        try:
            return self._size_on_disk(after, through)
        except sqlite3.Error as error:
            if not _is_damage(error):
                raise
            self._begin_anew(error)
            return 0

    @property
    def bytes_waiting(self) -> int:
        return self._bytes + sum(map(len, self._memory.values()))

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
                self._db.execute("begin")
                if self._stale:
                    self._forget()
                self._db.execute("insert into batch values (?, ?)", (sequence, data))
                self._db.execute("commit")
                self._stale = False
                self._kept.clear()
            except sqlite3.Error as error:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("rollback")
                if _is_damage(error):
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
                if not _is_damage(error):
                    raise
                self._begin_anew(error)

    def _drop_oldest(self) -> None:
        self._newest = None
        oldest = "select sequence, length(data) from batch order by sequence limit 1"
        dropped, size = self._db.execute(oldest).fetchone()
        self._db.execute("delete from batch where sequence = ?", (dropped,))
        self._bytes -= size
        self.dropped += 1

    def _forget(self) -> None:
        self._db.execute("delete from batch where sequence <= ?", (self._acked,))
        self._db.executemany("delete from batch where sequence = ?", [(one,) for one in self._kept])

    def _keep_in_memory(self, sequence: int, data: bytes, error: Exception) -> None:
        if not self._disk_failed:
            log.warning("cannot write the spool (%s): batches wait in memory", error)
        self._disk_failed = True
        self._newest = None
        self._memory[sequence] = data
        bound = min(MEMORY_BYTES, self._limit)
        while len(self._memory) > MEMORY_BATCHES or sum(map(len, self._memory.values())) > bound:
            del self._memory[min(self._memory)]
            self.dropped += 1

    def _write_memory(self) -> None:
        """Put on disk what waits in memory, the oldest first, as far as there is room again."""
        with contextlib.suppress(sqlite3.Error):
            for sequence in sorted(self._memory):
                self._db.execute("insert into batch values (?, ?)", (sequence, self._memory[sequence]))
                self._bytes += len(self._memory.pop(sequence))

    def pending(self, after: int, limit: int, through: int = MAX_SEQUENCE) -> list[Pending]:
        """The oldest batches that wait with a sequence above `after`, up to `through`."""
        with self._lock:
            after = max(after, self._acked)
            if self._newest is not None and after >= self._newest.sequence - 1:
                found = [self._newest] if after < self._newest.sequence <= through else []
            else:
                rows = self._on_disk(after, through, limit + sum(one > after for one in self._kept))
                rows += [(s, d) for s, d in self._memory.items() if after < s <= through]
                found = [Pending(*row) for row in sorted(rows)]
            return [one for one in found if one.sequence not in self._kept][:limit]

    def _on_disk(self, after: int, through: int, limit: int) -> list[tuple[int, bytes]]:
        query = "select sequence, data from batch where sequence > ? and sequence <= ?"
        try:
            found = self._db.execute(f"{query} order by sequence limit ?", (after, through, limit))
            return found.fetchall()
        except sqlite3.Error as error:
            if not _is_damage(error):  # a disk that does not answer now may do so later
                raise Unavailable(f"the spool {self._path} cannot be read now ({error})") from None
            self._begin_anew(error)
            return []

    def ack(self, sequence: int) -> None:
        """Forget everything up to and including `sequence`."""
        with self._lock:
            sequence = min(sequence, self._last)  # nobody has what was not made yet
            for held in [s for s in self._memory if s <= sequence]:
                del self._memory[held]
            if sequence <= self._acked:
                return
            before, self._acked, self._stale = self._acked, sequence, True
            if sequence >= self._last:
                self._bytes = 0
            else:
                counted = sum(self._size(one - 1, one) for one in self._kept if one <= sequence)
                size = self._size(before, sequence)  # first: it may begin a new file
                self._bytes = max(0, self._bytes - (size - counted))
            self._kept = {one for one in self._kept if one > sequence}

    def forget(self, sequences: Sequence[int]) -> None:
        """These are at the server, whatever is with those before them."""
        with self._lock:
            for sequence in sequences:
                self._memory.pop(sequence, None)
                if self._acked < sequence <= self._last and sequence not in self._kept:
                    size = self._size(sequence - 1, sequence)
                    self._bytes -= size
                    self._kept.add(sequence)
                    self._stale = True
            if self._bytes == 0 and not self._memory:
                self._acked = self._last
                self._kept.clear()

    def reject(self, sequence: int) -> None:
        """Give up one batch that the server can never take."""
        with self._lock:
            self.refused += 1
        self.remove(sequence)

    def give_up(self, sequence: int) -> None:
        """One batch cannot be read any more."""
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
            self._memory.pop(sequence, None)
            with contextlib.suppress(sqlite3.Error):  # on a full disk it stays, and is refused once more
                if sequence > self._acked and sequence not in self._kept:
                    size = self._size(sequence - 1, sequence)
                    self._bytes -= size
                self._db.execute("delete from batch where sequence = ?", (sequence,))

    def identity(self, fresh: str) -> str:
        """The name this agent keeps over restarts; `fresh` becomes it the first time."""
        with self._lock:
            self._db.execute("insert or ignore into state values ('agent', ?)", (fresh,))
            found = self._db.execute("select value from state where name = 'agent'").fetchone()
            self._agent = str(found[0])
            return self._agent

    def close(self) -> None:
        with self._lock:
            with contextlib.suppress(sqlite3.Error):  # on a full disk: they are sent once more
                self._db.execute("insert or replace into state values ('acked', ?)", (str(self._acked),))
                self._forget()
            self._write_memory()
            if lost := len(self._memory) + self._waiting_without_file():
                log.error("%d batches that wait in memory are lost: the disk is full", lost)
            self._db.close()

    def _waiting_without_file(self) -> int:
        """Batches in a database that has no file."""
        with contextlib.suppress(sqlite3.Error):
            _, _, file = self._db.execute("pragma database_list").fetchone()
            return 0 if file else int(self._db.execute("select count(*) from batch").fetchone()[0])
        return 0


def _is_damage(error: Exception) -> bool:
    """Whether the file is to blame, not the disk or who uses it. ValueError: damaged text, of SQLite too."""
    if isinstance(error, sqlite3.OperationalError):
        return "decode" in str(error)  # the driver's own, for text that is no UTF-8
    return isinstance(error, (sqlite3.DatabaseError, ValueError)) and not isinstance(
        error, sqlite3.ProgrammingError
    )


def _what_is_left(path: Path) -> tuple[str, int]:
    """The agent's name in a damaged file, "" where it cannot be read, and how many batches wait there, 1
    where that is not known."""
    agent, waiting = "", 0
    with contextlib.suppress(sqlite3.Error, ValueError), contextlib.closing(sqlite3.connect(path)) as db:
        found = db.execute("select value from state where name = 'agent'").fetchone()
        agent = str(found[0]) if found and _NAME.fullmatch(str(found[0])) else ""
        waiting = int(db.execute("select count(*) from batch").fetchone()[0])
    return agent, max(1, waiting)


def _is_full(folder: Path) -> bool:
    """Whether the disk, or a quota, leaves no room there for what SQLite needs."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, LEAST_ROOM)
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def _state_of(path: Path) -> tuple[str, int, int]:
    """The agent's name, "" where it cannot be read, what was acknowledged, and the last number, 0 likewise,
    from a file next to which nothing can be made."""
    # What its log has is read where the memory that SQLite shares is still there, as after a kill.
    for how in ("mode=ro", "immutable=1"):
        with (
            contextlib.suppress(sqlite3.Error, ValueError),
            contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as db,
        ):
            said = dict(db.execute("select name, value from state"))
            newest = int(db.execute("select coalesce(max(sequence), 0) from batch").fetchone()[0])
            agent, acked = str(said.get("agent", "")), int(said.get("acked", 0))
            if _NAME.fullmatch(agent) and max(acked, newest) <= MAX_SEQUENCE:
                return agent, acked, max(acked, newest)
    return "", 0, 0


def _refuse_later(path: Path) -> None:
    """Raises Unavailable for a spool of a later release, of which nothing was changed."""
    if not path.exists():
        return
    # Even to read, SQLite makes a log next to a file that has none, unless it is told that nobody writes.
    how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as db,
    ):
        said = dict(db.execute("select name, value from state"))
        found = str(said.get("format", ""))
        if found.isdecimal() and int(found) > FORMAT:
            by = f"roofline-agent {said['release']}" if "release" in said else "a later release"
            raise Unavailable(
                f"the spool {path} has format {found} and was written by {by}; this roofline-agent, "
                f"{__version__}, reads formats up to {FORMAT}. Nothing was changed: start that release or a "
                "later one, which sends what waits there, or use another --state"
            )
