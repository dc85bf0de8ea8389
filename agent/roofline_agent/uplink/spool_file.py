"""The file of a spool: a database of batches, and of what must outlive the agent.

It may be damaged, of a later release, or on a full disk: it is set aside, refused, or replaced by a database
in memory. When which of these is done, the spool decides (spool.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .. import __version__
from ..errors import Unavailable
from .pending import MAX_SEQUENCE, Pending

LEAST_ROOM = 128 << 10  # bytes: what SQLite makes next to the file, and its first pages
_NAME = re.compile(r"[0-9a-f]{32}")  # of an agent
_READS, _READS_ALONE = "mode=ro", "immutable=1"  # alone: nobody writes the file meanwhile
FORMAT = 1  # of the file; earlier ones have none
_SCHEMA = """
create table if not exists batch (sequence integer primary key, data blob not null) strict;
create table if not exists state (name text primary key, value text not null) strict, without rowid;
"""


class State(NamedTuple):
    """What a file records of its agent."""

    agent: str  # its name; "": not known
    acked: int  # everything up to here is at the server
    last: int  # number of the newest batch that was made


class SpoolFile:
    """The database, in its file or in memory. Raises sqlite3.Error, and ValueError for damaged text."""

    def __init__(self, path: Path, connect: Callable[..., sqlite3.Connection] = sqlite3.connect) -> None:
        self.path, self._connect = path, connect
        self._agent = ""  # the name that the database keeps
        self._db: sqlite3.Connection
        self._opened = contextlib.ExitStack()
        self.in_memory = False

    def open(self) -> None:
        """Open or create the file."""
        self.path.touch(0o600)  # it holds what ranks of several users did
        self.in_memory = False
        self._open(self.path)

    def open_in_memory(self, agent: str = "") -> None:
        """Go on without the file. agent: its name, if that is not known yet."""
        self._agent = self._agent or agent
        self.in_memory = True
        self._open(":memory:")

    def _open(self, where: Path | str) -> None:
        self.close()
        self._db = self._connect(where, check_same_thread=False, isolation_level=None)
        self._opened.callback(self._db.close)
        self._db.executescript("pragma journal_mode=wal; pragma synchronous=off;" + _SCHEMA)
        own = [("format", str(FORMAT)), ("release", __version__)]
        own += [("agent", self._agent)] if self._agent else []
        self._db.executemany("insert or replace into state values (?, ?)", own)

    def close(self) -> None:
        self._opened.close()

    def set_aside(self) -> tuple[str, int]:
        """Move the damaged file out of the way, with its log; of earlier ones none is kept. Its new name, and
        how many batches are lost with it."""
        with contextlib.suppress(sqlite3.Error):
            self.close()
        for earlier in self.path.parent.glob(f"{self.path.name}.damaged-*"):
            earlier.unlink()
        when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        aside = self.path.with_name(f"{self.path.name}.damaged-{when}")
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                self.path.with_name(self.path.name + suffix).rename(f"{aside}{suffix}")
        agent, waiting = _what_is_left(aside)
        self._agent = self._agent or agent
        return aside.name, waiting

    def identity(self, fresh: str) -> str:
        """The agent's name; `fresh` becomes it the first time."""
        self._db.execute("insert or ignore into state values ('agent', ?)", (fresh,))
        found = self._db.execute("select value from state where name = 'agent'").fetchone()
        self._agent = str(found[0])
        return self._agent

    def acked(self) -> int:
        """What the last process knew to be acknowledged, if that can be."""
        found = self._db.execute("select value from state where name = 'acked'").fetchone()
        number = int(found[0]) if found else 0
        return number if number <= MAX_SEQUENCE else 0

    def keep_acked(self, sequence: int) -> None:
        self._db.execute("insert or replace into state values ('acked', ?)", (str(sequence),))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            self._db.execute("begin")
            yield
            self._db.execute("commit")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("rollback")
            raise

    def insert(self, sequence: int, data: bytes) -> None:
        self._db.execute("insert into batch values (?, ?)", (sequence, data))

    def read(self, after: int, through: int, limit: int) -> list[Pending]:
        """The first batches above one sequence, up to another."""
        query = "select sequence, data from batch where sequence > ? and sequence <= ?"
        rows = self._db.execute(f"{query} order by sequence limit ?", (after, through, limit))
        return [Pending(*row) for row in rows]

    def newest(self) -> int:
        """The last number; 0: there is no batch."""
        return int(self._db.execute("select coalesce(max(sequence), 0) from batch").fetchone()[0])

    def oldest(self) -> tuple[int, int]:
        """Number and bytes of the first batch; there must be one."""
        query = "select sequence, length(data) from batch order by sequence limit 1"
        sequence, size = self._db.execute(query).fetchone()
        return sequence, size

    def size(self, after: int, through: int) -> int:
        """Bytes of the batches above one sequence, up to another."""
        query = "select coalesce(sum(length(data)), 0) from batch where sequence > ? and sequence <= ?"
        return int(self._db.execute(query, (after, through)).fetchone()[0])

    def count(self) -> int:
        return int(self._db.execute("select count(*) from batch").fetchone()[0])

    def delete(self, sequences: Iterable[int]) -> None:
        self._db.executemany("delete from batch where sequence = ?", [(one,) for one in sequences])

    def delete_through(self, sequence: int) -> None:
        self._db.execute("delete from batch where sequence <= ?", (sequence,))

    def delete_impossible(self) -> int:
        """Delete batches whose numbers cannot be, which a server once made an agent take: nothing could
        follow them. How many there were."""
        return self._db.execute("delete from batch where sequence > ?", (MAX_SEQUENCE,)).rowcount


def is_damage(error: Exception) -> bool:
    """Whether the file is to blame, not the disk or who uses it. ValueError: damaged text, of SQLite too."""
    if isinstance(error, sqlite3.OperationalError):
        return "decode" in str(error)  # the driver's own, for text that is no UTF-8
    return isinstance(error, (sqlite3.DatabaseError, ValueError)) and not isinstance(
        error, sqlite3.ProgrammingError
    )


def cause_of(error: Exception, folder: Path) -> str:
    """What an error says, or what SQLite does not: that the file system has become read-only, as after an
    error of the disk."""
    return "the file system is read-only" if _refusal(folder) == errno.EROFS else str(error)


def is_full(folder: Path) -> bool:
    """Whether the disk, or a quota, leaves no room there for what SQLite needs."""
    return _refusal(folder) in (errno.ENOSPC, errno.EDQUOT)


def _refusal(folder: Path) -> int:
    """The number of the error with which the file system refuses what SQLite needs; 0: it does not."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, LEAST_ROOM)
    except OSError as error:
        return error.errno or 0
    return 0


def read_state(path: Path) -> State:
    """The state in a file next to which nothing can be made; an empty name and zeros where it cannot be
    read."""
    # What its log has is read where the memory that SQLite shares is still there, as after a kill.
    for how in (_READS, _READS_ALONE):
        with contextlib.suppress(sqlite3.Error, ValueError), _connected(path, how) as db:
            values = dict(db.execute("select name, value from state"))
            newest = int(db.execute("select coalesce(max(sequence), 0) from batch").fetchone()[0])
            agent, acked = str(values.get("agent", "")), int(values.get("acked", 0))
            if _NAME.fullmatch(agent) and max(acked, newest) <= MAX_SEQUENCE:
                return State(agent, acked, max(acked, newest))
    return State("", 0, 0)


def refuse_later_release(path: Path) -> None:
    """Raises Unavailable for a spool of a later release, of which nothing was changed."""
    if not path.exists():
        return
    # Even to read, SQLite makes a log next to a file that has none, unless nobody writes.
    how = _READS if path.with_name(f"{path.name}-wal").exists() else _READS_ALONE
    with contextlib.suppress(sqlite3.Error), _connected(path, how) as db:
        values = dict(db.execute("select name, value from state"))
        found = str(values.get("format", ""))
        if found.isdecimal() and int(found) > FORMAT:
            by = f"roofline-agent {values['release']}" if "release" in values else "a later release"
            raise Unavailable(
                f"the spool {path} has format {found} and was written by {by}; this roofline-agent, "
                f"{__version__}, reads formats up to {FORMAT}. Nothing was changed: start that release or a "
                "later one, which sends what waits there, or use another --state"
            )


@contextlib.contextmanager
def _connected(path: Path, how: str) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as db:
        yield db


def _what_is_left(path: Path) -> tuple[str, int]:
    """The agent's name in a damaged file, "" where it cannot be read, and how many batches wait there, 1
    where that is not known."""
    agent, waiting = "", 0
    with contextlib.suppress(sqlite3.Error, ValueError), contextlib.closing(sqlite3.connect(path)) as db:
        found = db.execute("select value from state where name = 'agent'").fetchone()
        agent = str(found[0]) if found and _NAME.fullmatch(str(found[0])) else ""
        waiting = int(db.execute("select count(*) from batch").fetchone()[0])
    return agent, max(1, waiting)
