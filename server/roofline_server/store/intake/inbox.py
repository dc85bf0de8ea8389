"""The durable doorstep: every batch one row, committed in groups before it is acknowledged.

SQLite in WAL mode with synchronous=FULL: after `commit` returns, a power cut loses nothing. (agent, sequence)
is unique and an agent's sequence only grows, so a batch that comes twice is kept once, also after the sealer
has taken it away.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
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
"""


PAGE = 1024  # batches


class Entry(NamedTuple):
    """A batch on its way in. `id` is 0 until it is stored."""

    id: int
    agent: str
    sequence: int
    node: int
    received_ns: int
    data: bytes


class Inbox:
    def __init__(self, path: Path) -> None:
        """Open or create. Raises sqlite3.Error or OSError when the file cannot be used."""
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.executescript("pragma journal_mode=wal; pragma synchronous=full;" + _SCHEMA)
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
                        "insert into batch (agent, sequence, node, received_ns, data) values (?, ?, ?, ?, ?)",
                        entry[1:],
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
        """Give higher ids than this one, in an inbox that has given none."""
        with self._lock:
            self._db.execute("insert into sqlite_sequence (name, seq) values ('batch', ?)", (last_id,))

    def ids(self) -> list[int]:
        """Of all that is here."""
        with self._lock:
            return [row[0] for row in self._db.execute("select id from batch")]

    def after(self, last_id: int) -> Iterator[Entry]:
        """Everything with an id above `last_id`, in order; a page of it is in memory at once."""
        query = (
            "select id, agent, sequence, node, received_ns, data from batch where id > ? order by id limit ?"
        )
        while True:
            with self._lock:
                page = [Entry(*row) for row in self._db.execute(query, (last_id, PAGE))]
            yield from page
            if len(page) < PAGE:
                return
            last_id = page[-1].id

    def delete(self, through_id: int) -> None:
        """Forget what the catalog says is sealed."""
        with self._lock:
            self._db.execute("delete from batch where id <= ?", (through_id,))

    def close(self) -> None:
        with self._lock:
            self._db.close()
