from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from roofline_server.errors import Unavailable
from roofline_server.store.catalog.versions import FORMAT
from roofline_server.store.identity import copy_of, identity_of_catalog

from ..builders import catalog_of, open_store
from .histories import ALL, filled, greet, marks_in, raw_rows, without_sums


def states(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("select name, value from state"))


def test_store_keeps_its_identity(tmp_path: Path) -> None:
    filled(tmp_path)
    with catalog_of(tmp_path) as catalog:
        first = identity_of_catalog(catalog)
    open_store(tmp_path).close()
    with catalog_of(tmp_path) as catalog:
        assert identity_of_catalog(catalog) == first
    assert first and copy_of(tmp_path / "catalog.copy.db").identity == first


@pytest.mark.parametrize("name", ["inbox.db", "catalog.db"])
def test_files_of_two_stores_are_refused(tmp_path: Path, name: str) -> None:
    for folder in ("one", "other"):
        filled(tmp_path / folder)
    shutil.copyfile(tmp_path / "other" / name, tmp_path / "one" / name)
    with pytest.raises(Unavailable, match="of two stores"):
        open_store(tmp_path / "one")
    assert len(list((tmp_path / "one/segments").rglob("*.parquet"))) > 5


def test_catalog_of_an_earlier_release_is_copied_and_read(tmp_path: Path) -> None:
    filled(tmp_path)
    without_sums(tmp_path / "catalog.db")
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as db, db:
        db.execute("delete from state where name in ('format', 'store', 'epoch')")
    with closing(sqlite3.connect(tmp_path / "inbox.db")) as db, db:
        db.execute("drop table about")
        db.execute("drop table damaged")
        db.execute("alter table batch drop column crc32")
    store = open_store(tmp_path)
    assert raw_rows(store) == marks_in(ALL)
    store.close()
    assert "format" not in states(tmp_path / "catalog.format1.db")
    assert states(tmp_path / "catalog.db")["format"] == str(FORMAT)


def test_copy_that_another_catalog_left_is_set_apart(tmp_path: Path) -> None:
    filled(tmp_path)
    for path in tmp_path.glob("catalog.db*"):
        path.unlink()
    store = open_store(tmp_path)
    greet(store)
    store.close()
    (apart,) = (tmp_path / "quarantine/catalogs").iterdir()
    assert copy_of(apart).sealed_through == len(ALL)


def garble(path: Path, word: bytes) -> None:
    """Set the first bit of a word that stands in what describes a database: SQLite's own message has it then,
    and is no UTF-8."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma wal_checkpoint(truncate)")
    data = bytearray(path.read_bytes())
    data[data.index(word)] ^= 0x80
    path.write_bytes(data)


def test_damaged_text_in_what_describes_the_inbox_is_said(tmp_path: Path) -> None:
    filled(tmp_path)
    garble(tmp_path / "inbox.db", b"strict")
    with pytest.raises(
        Unavailable, match="damaged: stop the server and run `roofline-server check --repair`"
    ):
        open_store(tmp_path)


def test_damaged_text_in_what_describes_the_copy_keeps_nobody_from_starting(tmp_path: Path) -> None:
    filled(tmp_path)
    garble(tmp_path / "catalog.copy.db", b"PRIMARY KEY")
    store = open_store(tmp_path)
    assert raw_rows(store) == marks_in(ALL)
    store.close()
