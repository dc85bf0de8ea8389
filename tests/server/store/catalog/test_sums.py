from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline_server.errors import Unavailable
from roofline_server.records import ClockSample, Incarnation, Lifetime, NodeKey
from roofline_server.store.catalog.catalog import Catalog, Progress, Sealing, sqlite_url
from roofline_server.store.catalog.integrity import integrity
from roofline_server.store.catalog.sums import FUNCTION, TABLE, _sums, add_function, begin_sums, wrong_sums
from roofline_server.store.catalog.versions import COPY, FORMAT
from roofline_server.store.check.repair import repair
from roofline_server.store.segments.files import Segment

from ...builders import crash, machine, open_store
from ..check.stores import answers, filled, kinds
from ..histories import ALL, JOB, OF_A, A, greet, without_sums

TEXT = "a text of some length"


def written(path: Path) -> None:
    """A catalog that has had inserts, updates and deletes."""
    catalog = Catalog(sqlite_url(path))
    catalog.put_states({"one": TEXT, "other": "2"})
    catalog.put_state("one", TEXT)
    for host in ("first", "second"):
        catalog.add_nodes({NodeKey("agent", boot): machine(host=host) for boot in ("1", "2")})
    catalog.put_clocks([(1, ClockSample(5, 7, 2)), (1, ClockSample(6, 2**60 + 1, 3))], [(1, 5)])
    segments = [Segment(JOB, "marks", f"segments/{n}", 3, 100, 10, 20, n) for n in range(3)]
    who = Incarnation(1, 1, 100, 5, "", 2, "tf_config")
    for some, gone in ((segments[:2], []), (segments[2:], ["segments/0", "segments/1"])):
        catalog.seal(Sealing(some, gone, {JOB: Progress(20, 15)}, {who: Lifetime(1, 2, False)}, 7))
    catalog.close()


def spoil(path: Path) -> None:
    """One bit of a row, which SQLite does not see."""
    data = path.read_bytes()
    at = data.index(TEXT.encode())
    path.write_bytes(data[: at + 2] + bytes([data[at + 2] ^ 1]) + data[at + 3 :])


def test_all_that_the_catalog_writes_keeps_the_sums(tmp_path: Path) -> None:
    written(tmp_path / "catalog.db")
    assert integrity(tmp_path / "catalog.db") == ""
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as db:
        kept = {name: rows for name, rows, _ in db.execute(f"select * from {TABLE}")}
    assert [kept[name] for name in ("node", "knot", "segment")] == [2, 1, 1]


def test_row_that_is_not_as_it_was_written_is_found(tmp_path: Path) -> None:
    written(tmp_path / "catalog.db")
    spoil(tmp_path / "catalog.db")
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert integrity(tmp_path / "catalog.db") == "rows of state are not as they were written"


def test_changed_description_of_a_table_is_found(tmp_path: Path) -> None:
    written(tmp_path / "catalog.db")
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as db, db:
        db.execute("pragma writable_schema=on")
        db.execute("update sqlite_master set sql = replace(sql, 'value', 'valud') where name = 'state'")
    assert "what describes its tables" in integrity(tmp_path / "catalog.db")


def test_program_that_does_not_keep_the_sums_cannot_write(tmp_path: Path) -> None:
    written(tmp_path / "catalog.db")
    with (
        closing(sqlite3.connect(tmp_path / "catalog.db")) as db,
        pytest.raises(sqlite3.OperationalError, match=FUNCTION),
    ):
        db.execute("delete from state")
    assert wrong_sums(tmp_path / "catalog.db") == ""


def test_catalog_of_before_gets_sums_and_one_that_lost_them_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    written(path)
    without_sums(path)
    assert integrity(path) == "its checksums are missing"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update state set value = '2' where name = 'format'")
    assert integrity(path) == ""
    catalog = Catalog(sqlite_url(path))
    assert catalog.state("format") == str(FORMAT)
    catalog.close()
    assert integrity(path) == "" and (tmp_path / "catalog.format2.db").exists()
    spoil(path)
    assert integrity(path)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), TEXTS)
KINDS = st.sampled_from(["insert", "replace", "delete", "update"])


@given(st.lists(st.tuples(KINDS, VALUES, VALUES, VALUES)))
@settings(max_examples=60, deadline=None)
def test_sums_follow_any_value_in_any_column(changes: list[tuple[str, object, object, object]]) -> None:
    """SQLite may keep a value in another way than it was given."""
    with closing(sqlite3.connect(":memory:")) as db:
        add_function(db)
        db.execute("create table some (id integer primary key, real float, text varchar, number bigint)")
        begin_sums(db)
        for number, (what, *values) in enumerate(changes):
            if what == "insert":
                db.execute("insert into some (real, text, number) values (?, ?, ?)", values)
            elif what == "replace":
                db.execute("insert or replace into some values (?, ?, ?, ?)", (number // 2, *values))
            elif what == "delete":
                db.execute("delete from some where id = ?", (number // 2,))
            else:
                db.execute("update some set real = ?, text = ?, number = ?", values)
        kept = db.execute(f"select rows, crcs from {TABLE} where name = 'some'").fetchone()
        assert kept == _sums(db, "some")


def said(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return list(db.iterdump())


def test_flipped_bit_is_found_or_changes_no_row(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    written(path)
    before, sound = said(path), path.read_bytes()
    chance, found = random.Random(1), 0
    for _ in range(300):
        data = bytearray(sound)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        if why := integrity(path):
            assert "\n" not in why
            found += 1
        else:
            assert said(path) == before
    assert found


# -- stores --------------------------------------------------------------------------------------------


def test_damaged_catalog_is_refused_in_one_line_and_mended(tmp_path: Path) -> None:
    store = filled(tmp_path)
    before = answers(store)
    store._catalog.put_state("one", TEXT)
    store._sealer.keep_copy(always=True)
    store.close()
    spoil(tmp_path / "catalog.db")
    with pytest.raises(Unavailable, match=r"^[^\n]*rows of state[^\n]*check --repair`$"):
        open_store(tmp_path)
    assert kinds(tmp_path) == ["damaged"]
    repair(tmp_path)
    assert kinds(tmp_path) == []
    again = open_store(tmp_path)
    assert answers(again) == before
    again.close()


def test_damaged_catalog_does_not_replace_its_sound_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path).close()
    catalog = Catalog(sqlite_url(tmp_path / "catalog.db"))
    catalog.put_state("one", TEXT)
    catalog.copy(tmp_path / COPY)
    catalog.close()
    spoil(tmp_path / "catalog.db")
    catalog = Catalog(sqlite_url(tmp_path / "catalog.db"))
    with pytest.raises(OSError, match="rows of state"):
        catalog.copy(tmp_path / COPY)
    catalog.close()
    assert integrity(tmp_path / COPY) == ""
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("is_repaired", [True, False])
def test_batches_of_nodes_that_a_lost_catalog_knew_are_kept_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_repaired: bool
) -> None:
    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A)
    crash(store)
    for path in tmp_path.glob("catalog*"):
        path.unlink()
    if is_repaired:
        repair(tmp_path)
    again = open_store(tmp_path)
    assert f"{len(OF_A)} batches in the inbox are of nodes that the catalog" in caplog.text
    assert again.jobs() == set()
    greet(again)
    for node, one in ALL:
        if node is not A:
            node.put(again, one)
    again.close()
    repair(tmp_path)
    with closing(sqlite3.connect(tmp_path / "inbox.db")) as db:
        assert db.execute("select count(*) from damaged").fetchone() == (len(OF_A),)
    assert kinds(tmp_path) == []
