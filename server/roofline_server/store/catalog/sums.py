"""Checksums of the contents of an SQLite catalog: SQLite has none for its pages.

For each table there is the sum of the CRCs of its rows, in any order, and the number of its rows. Triggers
update them in the transaction that changes the rows, with a function that each writing connection must have:
SQLite refuses a connection without it. The schema, which says what the bytes of a row mean, has one too.
"""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

TABLE = "checksum"
SCHEMA = " schema"  # no table has such a name
FUNCTION = "row_crc"
FIRST_FORMAT = 3  # of catalogs that have them

_TABLES = "select name from sqlite_master where type = 'table' and name <> ? order by name"


def add_function(connection: sqlite3.Connection) -> None:
    """Have a connection able to write."""
    connection.create_function(FUNCTION, -1, row_crc, deterministic=True)
    connection.execute("pragma trusted_schema=on")  # else triggers may not call it
    connection.execute("pragma recursive_triggers=on")  # else `insert or replace` takes rows away unseen


def row_crc(*values: object) -> int:
    """CRC-32 of the values of a row, by what they are and not how they are stored."""
    return zlib.crc32(repr(values).encode("utf-8", "backslashreplace"))


def begin_sums(db: sqlite3.Connection) -> None:
    """Keep checksums from now on, of tables that have none yet, and of the schema as it is now. To be called
    after `wrong_sums`, in a transaction."""
    db.execute(
        f"create table if not exists {TABLE} (name text primary key, rows integer not null, "
        "crcs integer not null) strict, without rowid"
    )
    kept = {name for (name,) in db.execute(f"select name from {TABLE}")}
    for (name,) in db.execute(_TABLES, (TABLE,)).fetchall():
        if name not in kept:
            _follow(db, name)
            db.execute(f"insert into {TABLE} values (?, ?, ?)", (name, *_sums(db, name)))
    found = _schema_sums(db)
    if db.execute(f"select rows, crcs from {TABLE} where name = ?", (SCHEMA,)).fetchone() != found:
        db.execute(f"insert or replace into {TABLE} values (?, ?, ?)", (SCHEMA, *found))


def _follow(db: sqlite3.Connection, table: str) -> None:
    """Triggers that bring the sums of a table up to date."""
    names = _columns(db, table)
    old, new = (
        f"{FUNCTION}({', '.join(f'{row}.{_quoted(name)}' for name in names)})" for row in ("old", "new")
    )
    changes = {
        "insert": f"rows = rows + 1, crcs = crcs + {new}",
        "delete": f"rows = rows - 1, crcs = crcs - {old}",
        "update": f"crcs = crcs + {new} - {old}",
    }
    for event, change in changes.items():
        db.execute(
            f"create trigger {_quoted(f'{TABLE} {table} {event}')} after {event} on {_quoted(table)} "
            f"begin update {TABLE} set {change} where name = '{table}'; end"
        )


def wrong_sums(path: Path) -> str:
    """What of an SQLite catalog is not as it was written; empty: nothing, or it keeps no checksums. Raises
    sqlite3.Error."""
    with closing(sqlite3.connect(path)) as db:
        add_function(db)
        db.text_factory = lambda text: text.decode(errors="surrogateescape")
        db.execute("begin")  # while a server works with it, all is read as it is at one moment
        there = {name for (name,) in db.execute(_TABLES, (TABLE,))}
        if not db.execute("select 1 from sqlite_master where name = ?", (TABLE,)).fetchone():
            return "its checksums are missing" if "state" in there and _should_have(db) else ""
        kept = {name: (rows, crcs) for name, rows, crcs in db.execute(f"select * from {TABLE}")}
        if kept.pop(SCHEMA, None) != _schema_sums(db):
            return "what describes its tables is not as it was written"
        wrong = sorted(name for name in kept if name not in there or _sums(db, name) != kept[name])
    return f"rows of {', '.join(wrong)} are not as they were written" if wrong else ""


def _should_have(db: sqlite3.Connection) -> bool:
    found = db.execute("select value from state where name = 'format'").fetchone()
    if found is None:
        return False
    return not str(found[0]).isdigit() or int(found[0]) >= FIRST_FORMAT


def _sums(db: sqlite3.Connection, table: str) -> tuple[int, int]:
    columns = ", ".join(map(_quoted, _columns(db, table)))
    # An index that has all columns would be read in the place of the table.
    query = f"select count(*), coalesce(sum({FUNCTION}({columns})), 0) from {_quoted(table)} not indexed"
    try:
        rows, crcs = db.execute(query).fetchone()
    except sqlite3.OperationalError as error:
        if "user-defined function" in str(error):  # a text that is no UTF-8
            return -1, 0
        raise
    return int(rows), int(crcs)


def _schema_sums(db: sqlite3.Connection) -> tuple[int, int]:
    found = db.execute("select type, name, tbl_name, sql from sqlite_master").fetchall()
    return len(found), sum(row_crc(*row) for row in found)


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"pragma table_info({_quoted(table)})")]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
