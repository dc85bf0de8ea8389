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
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ... import __version__
from .sequences import Checksums, Numbers, gaps_text, parse_gaps

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
MAX_LINEAGES = 64  # of an agent that are remembered; each of its processes begins one


class Known(Enum):
    """What the inbox says of a batch that comes."""

    NEW = "no batch with its number was kept"
    KEPT = "it was kept"
    TAKEN = "another batch with its number was kept"


class Entry(NamedTuple):
    """A batch on its way in. `id` is 0 until it is stored."""

    id: int
    agent: str
    sequence: int
    node: int
    received_ns: int
    data: bytes
    lineage: str = ""


class DamagedRow(NamedTuple):
    """A row that was set apart. Of one that is not as it was written, any of what it says may be wrong."""

    id: int
    agent: str
    sequence: int
    node: int
    is_sound: bool = False  # it is as it was written, but the catalog did not know its node


def checksum(entry: Entry) -> int:
    """CRC-32 of all that a row says but its id."""
    row = f"{entry.agent} {entry.sequence} {entry.node} {entry.received_ns} {entry.lineage} "
    return zlib.crc32(entry.data or b"", zlib.crc32(row.encode("utf-8", "surrogateescape")))


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
        self._numbers: dict[str, dict[str, Numbers]] = {}  # agent -> lineage, the one used last at the end
        self._checksums: dict[tuple[str, str], Checksums] = {}
        rows = self._db.execute(
            "select agent, lineage, sequence, gaps, forgotten from acked where sequence < ? order by used_ns",
            (MAX_SEQUENCE,),
        )
        for agent, lineage, sequence, gaps, forgotten in rows:
            self._numbers.setdefault(agent, {})[lineage] = Numbers(sequence, parse_gaps(gaps), forgotten)
        for agent, lineage, sequence, data in self._db.execute(
            "select agent, lineage, sequence, data from batch order by id"
        ):
            if isinstance(sequence, int) and isinstance(data, bytes):  # else it is damaged
                self._remember(agent, lineage, sequence, data)

    def _note_format(self) -> None:
        """What a later release, or this one, can tell an earlier one by."""
        own = {"format": str(FORMAT), "release": __version__}
        if own.items() - self.about().items():
            self.put_about(own)

    def acked(self, agent: str, lineage: str = "") -> int:
        """Highest durable sequence of a lineage of an agent; 0 when it is unknown."""
        return self._of(agent, lineage).highest

    def known(self, entry: Entry) -> Known:
        """Whether this very batch was kept, as far as is known."""
        numbers = self._of(entry.agent, entry.lineage)
        if not numbers.has(entry.sequence):
            return Known.NEW
        checksums = self._checksums.get((entry.agent, entry.lineage))
        crc = checksums.of(entry.sequence) if checksums else None
        if crc is not None:
            return Known.KEPT if crc == zlib.crc32(entry.data) else Known.TAKEN
        # A lineage has one writer, so its number stands for the batch. Without one an agent sends nothing
        # again that it was told the server has: whoever does starts counting again.
        sure = entry.lineage and entry.sequence > numbers.forgotten
        return Known.KEPT if sure else Known.TAKEN

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
                    numbers = after.get(key) or self._of(*key)
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
                unused = self._unused(after)
                self._db.executemany("delete from acked where agent = ? and lineage = ?", unused)
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise
            for key in unused:
                self._numbers[key[0]].pop(key[1], None)
                self._checksums.pop(key, None)
            for (agent, lineage), numbers in after.items():
                lineages = self._numbers.setdefault(agent, {})
                lineages.pop(lineage, None)
                lineages[lineage] = numbers
            for entry in stored:
                self._remember(entry.agent, entry.lineage, entry.sequence, entry.data)
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

    def _of(self, agent: str, lineage: str) -> Numbers:
        return self._numbers.get(agent, {}).get(lineage) or Numbers()

    def _unused(self, after: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The lineages that have no room any more once these are used: those used longest ago."""
        new: dict[str, set[str]] = {}
        for agent, lineage in after:
            new.setdefault(agent, set()).add(lineage)
        found = []
        for agent, lineages in new.items():
            others = [one for one in self._numbers.get(agent, {}) if one and one not in lineages]
            over = len(others) + len(lineages - {""}) - MAX_LINEAGES
            found += [(agent, one) for one in others[: max(0, over)]]
        return found

    def _remember(self, agent: str, lineage: str, sequence: int, data: bytes) -> None:
        checksums = self._checksums.get((agent, lineage))
        if checksums is None:
            checksums = self._checksums[agent, lineage] = Checksums()
        checksums.add(sequence, zlib.crc32(data))

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
        """The damaged rows that were set apart."""
        with self._lock:
            found = self._db.execute(f"select {_COLUMNS} from damaged order by id").fetchall()
        return [_set_apart(Entry(*said), crc32) for *said, crc32 in found]

    def sound_apart(self) -> list[Entry]:
        """The rows that were set apart and are as they were written."""
        with self._lock:
            found = self._db.execute(f"select {_COLUMNS} from damaged order by id").fetchall()
        return [Entry(*said) for *said, crc32 in found if _set_apart(Entry(*said), crc32).is_sound]

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


def _is_possible(entry: Entry) -> bool:
    """Whether its fields have their types: a damaged row can hold anything."""
    numbers = (entry.sequence, entry.node, entry.received_ns)
    texts = isinstance(entry.agent, str) and isinstance(entry.data, bytes)
    return texts and all(isinstance(number, int) for number in numbers)


def _set_apart(entry: Entry, crc32: int | None) -> DamagedRow:
    is_sound = crc32 is not None and _is_possible(entry) and checksum(entry) == crc32
    return DamagedRow(entry.id, str(entry.agent), _number(entry.sequence), _number(entry.node), is_sound)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
