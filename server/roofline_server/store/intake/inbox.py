"""Where batches first become durable: every batch is one row, committed in groups before it is acknowledged.

SQLite in WAL mode with synchronous=FULL: after `commit` returns, a power cut loses nothing. (agent, lineage,
sequence) is unique, and it stays known which numbers of a lineage were kept, even after the sealer has taken
the batches away: a batch that comes twice is kept once, and another batch with its number is recognised as
different. Each row has a checksum: one that is not as it was written is set aside.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ... import __version__
from .entries import DamagedRow, Entry, checked, checksum, damaged_row
from .lineages import Known, Lineages
from .sequences import Numbers, gaps_text, parse_gaps

log = logging.getLogger(__name__)

_SCHEMA = """
create table if not exists batch (
    id integer primary key autoincrement,
    agent text not null,
    sequence integer not null,
    node integer not null,
    received_ns integer not null,
    data blob not null,
    lineage text not null default '',
    unique (agent, lineage, sequence)
) strict;
create table if not exists acked (
    agent text not null,
    lineage text not null default '',
    sequence integer not null,
    gaps text not null default '',
    forgotten integer not null default 0,
    used_ns integer not null default 0,
    primary key (agent, lineage)
) strict, without rowid;
create table if not exists about (name text primary key, value text not null) strict, without rowid;
create table if not exists damaged (
    id integer primary key, agent, sequence, node, received_ns, data, lineage, crc32
);
"""
# Earlier inboxes have no checksums, and their rows are read without.
_ADDED = "alter table batch add column crc32 integer"
STATEMENTS = 8
_COLUMNS = "id, agent, sequence, node, received_ns, data, lineage, crc32"
# From inboxes before lineages; SQLite cannot change the keys of a table.
_MOVE = """
begin immediate;
alter table batch rename to batch_before;
alter table acked rename to acked_before;
{schema}
delete from sqlite_sequence where name = 'batch';
insert into sqlite_sequence (name, seq) select 'batch', seq from sqlite_sequence where name = 'batch_before';
insert into batch (id, agent, sequence, node, received_ns, data)
    select id, agent, sequence, node, received_ns, data from batch_before;
insert into acked (agent, sequence) select agent, sequence from acked_before;
drop table batch_before;
drop table acked_before;
commit;
"""

PAGE = 1024  # batches
ROWS_AT_ONCE = 32  # of an insert
PART_BYTES, ROW_BYTES = 4 << 20, 256  # deleted at once; of a row in addition to its data
GIVE_WAY_S = 0.001
PAGE_BYTES, LOG_BYTES, LONGEST_LOG = 4096, 2 << 20, 64 << 20
# Of the file, in "about"; earlier ones have none. Raise it where an earlier release would misread it.
FORMAT = 1
MAX_SEQUENCE = 2**53  # larger ones, which servers once took, are not believed


class Inbox:
    def __init__(self, path: Path) -> None:
        """Open or create. Raises sqlite3.Error or OSError when the file cannot be used."""
        self._lock = threading.Lock()
        self._path, self._log = path, path.with_name(f"{path.name}-wal")
        self._logged = self._log.stat().st_size if self._log.exists() else 0
        # A statement that Python keeps for later keeps the values it was given last, and for each number of
        # batches there is one: with the usual 128 they all stay, with hundreds of batches.
        self._db = sqlite3.connect(
            path, check_same_thread=False, isolation_level=None, cached_statements=STATEMENTS
        )
        # A damaged text can be no UTF-8.
        self._db.text_factory = lambda text: text.decode(errors="surrogateescape")
        self._db.executescript("pragma journal_mode=wal; pragma synchronous=full;")
        # Some builds of SQLite write zeros over what is deleted, which here takes longer than all else.
        self._db.execute("pragma secure_delete=off")
        # Of those who commit; `checkpoint` keeps the log far below that, and makes nobody wait.
        self._db.execute(f"pragma wal_autocheckpoint={LONGEST_LOG // PAGE_BYTES}")
        columns = [row[1] for row in self._db.execute("pragma table_info(batch)")]
        before = columns and "lineage" not in columns
        self._db.executescript(_MOVE.format(schema=_SCHEMA) if before else _SCHEMA)
        if "crc32" not in {row[1] for row in self._db.execute("pragma table_info(batch)")}:
            self._db.execute(_ADDED)
        self._note_format()
        self._checkpoints: sqlite3.Connection | None = None
        self._checkpointing, self._is_closed = threading.Lock(), False
        self._lineages = Lineages()
        rows = self._db.execute(
            "select agent, lineage, sequence, gaps, forgotten from acked where sequence < ? order by used_ns",
            (MAX_SEQUENCE,),
        )
        for agent, lineage, sequence, gaps, forgotten in rows:
            self._lineages.use(agent, lineage, Numbers(sequence, parse_gaps(gaps), forgotten))
        for agent, lineage, sequence, data in self._db.execute(
            "select agent, lineage, sequence, data from batch order by id"
        ):
            if isinstance(sequence, int) and isinstance(data, bytes):  # else it is damaged
                self._lineages.remember(agent, lineage, sequence, data)

    def _note_format(self) -> None:
        """What a later release, or this one, can tell an earlier one by."""
        own = {"format": str(FORMAT), "release": __version__}
        if own.items() - self.about().items():
            self.put_about(own)

    def acked(self, agent: str, lineage: str = "") -> int:
        """Highest durable sequence of a lineage of an agent; 0 when it is unknown."""
        return self._lineages.of(agent, lineage).highest

    def known(self, entry: Entry) -> Known:
        """Whether this very batch was kept, as far as is known."""
        return self._lineages.known(entry)

    def commit(self, entries: Iterable[Entry]) -> list[Entry]:
        """Store what is new, durably, in one transaction; returns it with ids. Raises sqlite3.Error whole."""
        with self._lock:
            after: dict[tuple[str, str], Numbers] = {}
            stored: list[Entry] = []
            self._db.execute("begin immediate")
            try:
                last_id = self._last_id()
                for entry in entries:
                    key = entry.agent, entry.lineage
                    numbers = after.get(key) or self._lineages.of(*key)
                    if numbers.has(entry.sequence):
                        continue
                    after[key] = numbers.with_kept(entry.sequence)
                    stored.append(entry._replace(id=last_id + len(stored) + 1))
                self._insert(f"insert into batch ({_COLUMNS})", [(*e, checksum(e)) for e in stored])
                used_ns = {(e.agent, e.lineage): e.received_ns for e in stored}
                self._insert(
                    "insert or replace into acked",
                    [
                        (*key, n.highest, gaps_text(n.gaps), n.forgotten, used_ns[key])
                        for key, n in after.items()
                    ],
                )
                unused = self._lineages.unused(after)
                self._db.executemany("delete from acked where agent = ? and lineage = ?", unused)
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise
            for key in unused:
                self._lineages.forget(*key)
            for key, numbers in after.items():
                self._lineages.use(*key, numbers)
            for entry in stored:
                self._lineages.remember(entry.agent, entry.lineage, entry.sequence, entry.data)
                self._logged += len(entry.data) + PAGE_BYTES
            return stored

    def checkpoint(self) -> None:
        """Move what is in SQLite's log to its place, if it is much, while others commit."""
        with self._checkpointing:
            if self._logged < LOG_BYTES or self._is_closed:
                return
            self._logged = 0
            try:
                if self._checkpoints is None:
                    self._checkpoints = sqlite3.connect(self._path, check_same_thread=False)
                    self._checkpoints.execute("pragma synchronous=full")
                self._checkpoints.execute("pragma wal_checkpoint(passive)").fetchall()
            except sqlite3.Error as error:
                log.warning("cannot empty the log of %s (%s); trying again", self._path.name, error)

    def _insert(self, into: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Many rows with one statement: after each one the thread waits for Python's lock again."""
        for first in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[first : first + ROWS_AT_ONCE]
            row = f"({', '.join('?' * len(some[0]))})"
            values = [value for one in some for value in one]
            self._db.execute(f"{into} values {', '.join([row] * len(some))}", values)

    def last_id(self) -> int:
        """The highest id that was ever given; 0: none was."""
        with self._lock:
            return self._last_id()

    def _last_id(self) -> int:
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
        """Ids of all rows that are here."""
        with self._lock:
            return [row[0] for row in self._db.execute("select id from batch")]

    def after(self, last_id: int) -> Iterator[Entry]:
        """Everything with an id above `last_id`, in order, but for damaged rows; a page of it is in memory
        at once."""
        for entry, is_sound in self.read(last_id):
            if is_sound:
                yield entry

    def read(self, last_id: int) -> Iterator[tuple[Entry, bool]]:
        """Every row above this id, in order, the damaged ones too, and whether each is as it was written."""
        query = f"select {_COLUMNS} from batch where id > ? order by id limit ?"
        while True:
            with self._lock:
                page = self._db.execute(query, (last_id, PAGE)).fetchall()
            for *said, crc32 in page:
                yield checked(Entry(*said), crc32)
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
        """The damaged rows that were set apart."""
        with self._lock:
            found = self._db.execute(f"select {_COLUMNS} from damaged order by id").fetchall()
        return [damaged_row(Entry(*said), crc32) for *said, crc32 in found]

    def sound_apart(self) -> list[Entry]:
        """The rows that were set apart and are as they were written."""
        with self._lock:
            found = self._db.execute(f"select {_COLUMNS} from damaged order by id").fetchall()
        return [Entry(*said) for *said, crc32 in found if damaged_row(Entry(*said), crc32).is_sound]

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Have these, which were set apart, as new ones; their numbers are known already."""
        with self._lock, self._db:
            self._db.execute("begin immediate")
            for table in ("damaged", "batch"):  # the second keeps them too until a sealing
                self._db.executemany(f"delete from {table} where id = ?", [(entry.id,) for entry in entries])
            first = self._last_id() + 1
            new = [entry._replace(id=first + at) for at, entry in enumerate(entries)]
            self._insert(f"insert into batch ({_COLUMNS})", [(*entry, checksum(entry)) for entry in new])

    def drop(self, rows: Iterable[DamagedRow]) -> None:
        """Forget these of those that were set apart."""
        with self._lock, self._db:
            self._db.execute("begin immediate")
            self._db.executemany("delete from damaged where id = ?", [(row.id,) for row in rows])

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
        """Forget what the catalog says is sealed; some at a time, as commits wait meanwhile."""
        for last_id in self._parts(through_id):
            with self._lock:
                self._db.execute("delete from batch where id <= ?", (last_id,))
            time.sleep(GIVE_WAY_S)  # a lock that is taken again at once is given to nobody else

    def _parts(self, through_id: int) -> list[int]:
        """The last id of each part of PART_BYTES of what is to be deleted."""
        with self._lock:
            sizes = self._db.execute(
                "select id, coalesce(length(data), 0) from batch where id <= ? order by id", (through_id,)
            ).fetchall()
        ends, size = [], 0
        for id, bytes in sizes:
            size += bytes + ROW_BYTES
            if size >= PART_BYTES:
                ends.append(id)
                size = 0
        return [*ends, through_id]

    def close(self) -> None:
        with self._checkpointing, self._lock:
            self._is_closed = True
            if self._checkpoints is not None:
                self._checkpoints.close()
            self._db.close()
