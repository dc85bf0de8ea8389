"""The durable doorstep: every batch one row, committed in groups before it is acknowledged.

SQLite in WAL mode with synchronous=FULL: after `commit` returns, a power cut loses nothing. (agent, sequence)
is unique and an agent's sequence only grows, so a batch that comes twice is kept once, also after the sealer
has taken it away. Each row has a checksum: one that is not as it was written is set apart.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_SCHEMA = """
create table if not exists batch (
    id integer primary key autoincrement,
    agent text not null,
    sequence integer not null,
    node integer not null,
    received_ns integer not null,
    data blob not null,
    unique (agent, sequence)
) strict;
create table if not exists acked (agent text primary key, sequence integer not null) strict, without rowid;
create table if not exists about (name text primary key, value text not null) strict, without rowid;
create table if not exists damaged (id integer primary key, agent, sequence, node, received_ns, data, crc32);
"""
# Inboxes of before have no checksums, and rows of then are read without.
_ADDED = "alter table batch add column crc32 integer"
_COLUMNS = "id, agent, sequence, node, received_ns, data, crc32"

PAGE = 1024  # batches


class Entry(NamedTuple):
    """A batch on its way in. `id` is 0 until it is stored."""

    id: int
    agent: str
    sequence: int
    node: int
    received_ns: int
    data: bytes


class DamagedRow(NamedTuple):
    """A row that is not as it was written; any of what it says may be wrong."""

    id: int
    agent: str
    sequence: int
    node: int


def checksum(entry: Entry) -> int:
    """CRC-32 of all that a row says but its id."""
    said = f"{entry.agent} {entry.sequence} {entry.node} {entry.received_ns} "
    return zlib.crc32(entry.data or b"", zlib.crc32(said.encode("utf-8", "surrogateescape")))


class Inbox:
    def __init__(self, path: Path) -> None:
        """Open or create. Raises sqlite3.Error or OSError when the file cannot be used."""
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        # A damaged text can be no UTF-8.
        self._db.text_factory = lambda text: text.decode(errors="surrogateescape")
        self._db.executescript("pragma journal_mode=wal; pragma synchronous=full;" + _SCHEMA)
        if "crc32" not in {row[1] for row in self._db.execute("pragma table_info(batch)")}:
            self._db.execute(_ADDED)
        self._acked: dict[str, int] = dict(self._db.execute("select agent, sequence from acked"))

    def acked(self, agent: str) -> int:
        """Highest durable sequence of an agent; 0 when it is unknown."""
        return self._acked.get(agent, 0)

    def commit(self, entries: Iterable[Entry]) -> list[Entry]:
        """Store what is new, durably, in one transaction; returns it with ids. Raises sqlite3.Error whole."""
        with self._lock:
            highest = dict(self._acked)
            stored = []
            self._db.execute("begin immediate")
            try:
                for entry in entries:
                    if entry.sequence <= highest.get(entry.agent, 0):
                        continue
                    highest[entry.agent] = entry.sequence
                    cursor = self._db.execute(
                        "insert into batch (agent, sequence, node, received_ns, data, crc32) "
                        "values (?, ?, ?, ?, ?, ?)",
                        (*entry[1:], checksum(entry)),
                    )
                    stored.append(entry._replace(id=cursor.lastrowid or 0))
                self._db.executemany(
                    "insert or replace into acked values (?, ?)",
                    [(agent, highest[agent]) for agent in {e.agent for e in stored}],
                )
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise
            self._acked = highest
            return stored

    def last_id(self) -> int:
        """The highest id that was ever given; 0: none was."""
        with self._lock:
            row = self._db.execute("select seq from sqlite_sequence where name = 'batch'").fetchone()
        return int(row[0]) if row else 0

    def begin_after(self, last_id: int) -> None:
        """Give higher ids than this one from now on."""
        if self.last_id() >= last_id:
            return
        with self._lock, self._db:
            self._db.execute("begin immediate")
            self._db.execute("delete from sqlite_sequence where name = 'batch'")
            self._db.execute("insert into sqlite_sequence (name, seq) values ('batch', ?)", (last_id,))

    def ids(self) -> list[int]:
        """Of all that is here."""
        with self._lock:
            return [row[0] for row in self._db.execute("select id from batch")]

    def after(self, last_id: int) -> Iterator[Entry]:
        """Everything with an id above `last_id`, in order, but for damaged rows; a page of it is in memory
        at once."""
        for entry, is_sound in self.read(last_id):
            if is_sound:
                yield entry

    def read(self, last_id: int) -> Iterator[tuple[Entry, bool]]:
        """The same rows and the damaged ones, and whether each is as it was written."""
        query = f"select {_COLUMNS} from batch where id > ? order by id limit ?"
        while True:
            with self._lock:
                page = self._db.execute(query, (last_id, PAGE)).fetchall()
            for *said, crc32 in page:
                entry = Entry(*said)
                if _is_possible(entry):
                    yield entry, crc32 is None or checksum(entry) == crc32
                else:
                    sequence, node, received_ns = map(_number, entry[2:5])
                    yield Entry(entry.id, str(entry.agent), sequence, node, received_ns, b""), False
            if len(page) < PAGE:
                return
            last_id = page[-1][0]

    def set_apart(self, ids: Iterable[int]) -> None:
        """Copy rows to where they stay, and are read by nobody, when they are deleted as all others are."""
        copied = f"insert or replace into damaged ({_COLUMNS}) select {_COLUMNS} from batch where id = ?"
        with self._lock, self._db:
            self._db.execute("begin immediate")
            self._db.executemany(copied, [(id,) for id in ids])

    def damaged(self) -> list[DamagedRow]:
        """Those that were set apart."""
        with self._lock:
            found = self._db.execute("select id, agent, sequence, node from damaged order by id").fetchall()
        return [DamagedRow(row[0], str(row[1]), _number(row[2]), _number(row[3])) for row in found]

    def drop_damaged(self) -> int:
        """Forget those that were set apart; returns how many."""
        with self._lock:
            return self._db.execute("delete from damaged").rowcount

    def about(self) -> dict[str, str]:
        """What the inbox says of itself, by name."""
        with self._lock:
            return dict(self._db.execute("select name, value from about").fetchall())

    def put_about(self, values: Mapping[str, str]) -> None:
        """Keep what `about` gives."""
        with self._lock, self._db:
            self._db.execute("begin immediate")
            self._db.executemany("insert or replace into about values (?, ?)", values.items())

    def delete(self, through_id: int) -> None:
        """Forget what the catalog says is sealed."""
        with self._lock:
            self._db.execute("delete from batch where id <= ?", (through_id,))

    def close(self) -> None:
        with self._lock:
            self._db.close()


def _is_possible(entry: Entry) -> bool:
    """Whether its fields have their types: a damaged row can hold anything."""
    numbers = (entry.sequence, entry.node, entry.received_ns)
    texts = isinstance(entry.agent, str) and isinstance(entry.data, bytes)
    return texts and all(isinstance(number, int) for number in numbers)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
