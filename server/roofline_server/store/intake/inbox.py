"""The durable doorstep: every batch one row, committed in groups before it is acknowledged.

SQLite in WAL mode with synchronous=FULL: after `commit` returns, a power cut loses nothing. (agent, lineage,
sequence) is unique, and which numbers of a lineage were kept is known also after the sealer has taken the
batches away: a batch that comes twice is kept once, and another batch with its number is told from it.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from .sequences import Checksums, Numbers, gaps_text, parse_gaps

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
"""
# Of inboxes of before lineages; SQLite cannot change the keys of a table.
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


class Inbox:
    def __init__(self, path: Path) -> None:
        """Open or create. Raises sqlite3.Error or OSError when the file cannot be used."""
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.executescript("pragma journal_mode=wal; pragma synchronous=full;")
        columns = [row[1] for row in self._db.execute("pragma table_info(batch)")]
        before = columns and "lineage" not in columns
        self._db.executescript(_MOVE.format(schema=_SCHEMA) if before else _SCHEMA)
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
            self._remember(agent, lineage, sequence, data)

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
        # again that it was told the server has: whoever does counts anew.
        sure = entry.lineage and entry.sequence > numbers.forgotten
        return Known.KEPT if sure else Known.TAKEN

    def commit(self, entries: Iterable[Entry]) -> list[Entry]:
        """Store what is new, durably, in one transaction; returns it with ids. Raises sqlite3.Error whole."""
        with self._lock:
            after: dict[tuple[str, str], Numbers] = {}
            stored: list[Entry] = []
            self._db.execute("begin immediate")
            try:
                for entry in entries:
                    key = entry.agent, entry.lineage
                    numbers = after.get(key) or self._of(*key)
                    if numbers.has(entry.sequence):
                        continue
                    after[key] = numbers.with_kept(entry.sequence)
                    cursor = self._db.execute(
                        "insert into batch (agent, sequence, node, received_ns, data, lineage) "
                        "values (?, ?, ?, ?, ?, ?)",
                        entry[1:],
                    )
                    stored.append(entry._replace(id=cursor.lastrowid or 0))
                used_ns = {(e.agent, e.lineage): e.received_ns for e in stored}
                self._db.executemany(
                    "insert or replace into acked values (?, ?, ?, ?, ?, ?)",
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
            return stored

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
            "select id, agent, sequence, node, received_ns, data, lineage from batch where id > ? "
            "order by id limit ?"
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
