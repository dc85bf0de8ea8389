from __future__ import annotations

import contextlib
import ctypes.util
import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline_server.store.intake import inbox as module
from roofline_server.store.intake import lineages
from roofline_server.store.intake.entries import Entry
from roofline_server.store.intake.inbox import Inbox
from roofline_server.store.intake.lineages import Known

from ...builders import connections


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    opened = Inbox(tmp_path / "inbox.db")
    yield opened
    opened.close()


def entry(sequence: int, agent: str = "a", data: bytes = b"x", lineage: str = "") -> Entry:
    return Entry(0, agent, sequence, 1, 10, data, lineage)


def sequences(inbox: Inbox, last_id: int = 0) -> list[tuple[str, int]]:
    return [(e.agent, e.sequence) for e in inbox.after(last_id)]


def test_what_is_committed_comes_back_in_order_with_ids(inbox: Inbox) -> None:
    stored = inbox.commit([entry(1), entry(1, "b"), entry(2)])
    assert list(inbox.after(0)) == stored
    assert [e.id for e in stored] == sorted({e.id for e in stored})
    assert list(inbox.after(stored[0].id)) == stored[1:]


def test_batch_that_comes_twice_is_kept_once(inbox: Inbox) -> None:
    assert len(inbox.commit([entry(1), entry(1)])) == 1
    assert inbox.commit([entry(1)]) == []
    assert sequences(inbox) == [("a", 1)]


def test_batch_that_comes_again_after_reopening_is_known(tmp_path: Path) -> None:
    first = Inbox(tmp_path / "inbox.db")
    first.commit([entry(3)])
    first.close()
    again = Inbox(tmp_path / "inbox.db")
    assert again.acked("a") == 3
    assert again.commit([entry(3)]) == []
    assert sequences(again) == [("a", 3)]
    again.close()


def test_batch_that_comes_again_after_it_was_sealed_is_known(tmp_path: Path) -> None:
    first = Inbox(tmp_path / "inbox.db")
    (stored,) = first.commit([entry(1)])
    first.delete(stored.id)
    assert first.commit([entry(1)]) == []
    first.close()
    again = Inbox(tmp_path / "inbox.db")
    assert again.commit([entry(1)]) == []
    assert sequences(again) == []
    again.close()


def test_ids_are_never_used_again(tmp_path: Path) -> None:
    first = Inbox(tmp_path / "inbox.db")
    (stored,) = first.commit([entry(1)])
    first.delete(stored.id)
    first.close()
    again = Inbox(tmp_path / "inbox.db")
    (later,) = again.commit([entry(2)])
    assert later.id > stored.id
    again.close()


def test_unknown_agent_has_nothing_acked(inbox: Inbox) -> None:
    assert inbox.acked("nobody") == 0


def test_other_reader_of_the_file_sees_the_commit(tmp_path: Path, inbox: Inbox) -> None:
    inbox.commit([entry(1)])
    other = sqlite3.connect(tmp_path / "inbox.db")
    assert other.execute("select agent, sequence from batch").fetchall() == [("a", 1)]
    assert other.execute("select agent, sequence from acked").fetchall() == [("a", 1)]
    other.close()


def test_failed_commit_takes_nothing(inbox: Inbox) -> None:
    inbox.commit([entry(1)])
    spoiled = Entry(0, "a", 3, 1, 10, None)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.IntegrityError):
        inbox.commit([entry(2), spoiled])
    assert sequences(inbox) == [("a", 1)]
    assert inbox.acked("a") == 1
    inbox.commit([entry(2)])
    assert sequences(inbox) == [("a", 1), ("a", 2)]


def test_full_disk_leaves_earlier_batches_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = connections(monkeypatch)
    inbox = Inbox(tmp_path / "small.db")
    inbox.commit([entry(1)])
    pages = opened["small.db"].execute("pragma page_count").fetchone()[0]
    opened["small.db"].execute(f"pragma max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        inbox.commit([entry(2, data=bytes(1 << 20))])
    assert inbox.acked("a") == 1
    opened["small.db"].execute("pragma max_page_count = 100000")
    inbox.commit([entry(2, data=bytes(1 << 20))])
    assert sequences(inbox) == [("a", 1), ("a", 2)]
    inbox.close()


def test_wal_with_full_sync_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = connections(monkeypatch)
    inbox = Inbox(tmp_path / "new.db")
    assert opened["new.db"].execute("pragma journal_mode").fetchone() == ("wal",)
    assert opened["new.db"].execute("pragma synchronous").fetchone() == (2,)
    inbox.close()


@pytest.mark.parametrize(
    "change",
    [
        "data = zeroblob(length(data))",
        "data = substr(data, 2)",
        "node = 2",
        "sequence = 7",
        "received_ns = 11",
        "agent = 'c'",
        "crc32 = crc32 + 1",
    ],
)
def test_row_that_is_not_as_it_was_written_costs_itself(tmp_path: Path, change: str) -> None:
    first = Inbox(tmp_path / "inbox.db")
    first.commit([entry(1), entry(2, data=b"two"), entry(3)])
    first.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "inbox.db")) as db, db:
        db.execute(f"update batch set {change} where id = 2")
    again = Inbox(tmp_path / "inbox.db")
    assert [e.id for e in again.after(0)] == [1, 3]
    (damaged,) = (e for e, is_sound in again.read(0) if not is_sound)
    again.set_apart([damaged.id])
    again.delete(3)
    assert [(row.id, row.is_sound) for row in again.damaged()] == [(2, False)]
    again.drop(again.damaged())
    assert again.damaged() == []
    again.close()


def test_row_whose_data_are_null_costs_itself(tmp_path: Path) -> None:
    """One bit of the number that says what type a column has makes null of it, which the table forbids."""
    first = Inbox(tmp_path / "inbox.db")
    first.commit([entry(1), entry(2), entry(3)])
    first.close()
    path = tmp_path / "inbox.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("pragma writable_schema=on")
        db.execute("update sqlite_master set sql = replace(sql, 'data blob not null', 'data blob')")
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("update batch set data = null where id = 2")
    again = Inbox(path)
    assert [e.id for e in again.after(0)] == [1, 3]
    again.set_apart([2])
    again.delete(3)
    assert [(row.id, row.is_sound) for row in again.damaged()] == [(2, False)]
    again.close()


def test_text_that_is_no_text_any_more_costs_its_row(tmp_path: Path) -> None:
    first = Inbox(tmp_path / "inbox.db")
    first.commit([entry(1, agent="agent-of-a-node"), entry(1, "b")])
    first.close()
    data = (tmp_path / "inbox.db").read_bytes()
    at = data.index(b"agent-of-a-node\nx")
    (tmp_path / "inbox.db").write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    again = Inbox(tmp_path / "inbox.db")
    assert [e.agent for e in again.after(0)] == ["b"]
    again.close()


def test_row_without_a_checksum_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    first = Inbox(tmp_path / "inbox.db")
    first.commit([entry(1)])
    first.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "inbox.db")) as db:
        db.execute("alter table batch drop column crc32")
    again = Inbox(tmp_path / "inbox.db")
    again.commit([entry(2)])
    assert sequences(again) == [("a", 1), ("a", 2)]
    again.close()


@settings(max_examples=30, deadline=None)
@given(
    groups=st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 6)), max_size=5), max_size=6),
    deletions=st.sets(st.integers(0, 5)),
)
def test_every_number_of_an_agent_is_kept_once(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[tuple[str, int]]], deletions: set[int]
) -> None:
    inbox_path = tmp_path_factory.mktemp("inbox") / "inbox.db"
    inbox = Inbox(inbox_path)
    taken: list[tuple[str, int]] = []
    for number, group in enumerate(groups):
        stored = inbox.commit(entry(sequence, agent) for agent, sequence in group)
        for agent, sequence in group:
            if (agent, sequence) not in taken:
                taken.append((agent, sequence))
        assert [(e.agent, e.sequence) for e in stored] == taken[len(taken) - len(stored) :]
        if number in deletions and stored:
            inbox.delete(stored[-1].id)
    highest = {agent: max((n for who, n in taken if who == agent), default=0) for agent in "ab"}
    assert {agent: inbox.acked(agent) for agent in "ab"} == highest
    inbox.close()
    again = Inbox(inbox_path)
    for agent in "ab":
        for sequence in range(1, 7):
            new = again.known(entry(sequence, agent)) == Known.NEW
            assert new == ((agent, sequence) not in taken)
    again.close()


def test_commits_go_on_while_much_is_deleted(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = inbox.commit(entry(number, data=b"x" * 100) for number in range(1, 8))
    left: list[int] = []

    def give_way(_: float) -> None:
        assert not inbox._lock.locked()
        left.append(len(inbox.ids()))
        inbox.commit([entry(7 + len(left))])

    monkeypatch.setattr(module, "PART_BYTES", 2 * (100 + module.ROW_BYTES))
    monkeypatch.setattr(module.time, "sleep", give_way)
    inbox.delete(stored[-1].id)
    assert left == [5, 4, 3, 3]  # two go each time, and one has come meanwhile
    assert sequences(inbox) == [("a", number) for number in range(8, 12)]


def test_many_batches_of_one_commit_have_ids_in_their_order(inbox: Inbox) -> None:
    for first in (1, 101):
        inbox.commit(entry(number, data=b"%d" % number) for number in range(first, first + 70))
    kept = list(inbox.after(0))
    assert [e.id for e in kept] == list(range(1, 141))
    assert all(e.data == b"%d" % e.sequence for e in kept)
    inbox.delete(kept[-1].id)
    assert [e.id for e in inbox.commit([entry(500)])] == [141]


def test_numbers_out_of_order_are_all_kept(inbox: Inbox) -> None:
    for sequence in (3, 1, 2, 6, 5, 4):
        inbox.commit([entry(sequence)])
    assert sorted(sequences(inbox)) == [("a", n) for n in range(1, 7)]


def test_lineages_of_one_agent_have_numbers_of_their_own(inbox: Inbox) -> None:
    stored = inbox.commit(
        [entry(1, data=b"0"), entry(1, data=b"1", lineage="x"), entry(1, data=b"2", lineage="y")]
    )
    assert len(stored) == 3
    inbox.commit([entry(2, lineage="x")])
    assert [inbox.acked("a", lineage) for lineage in ("", "x", "y", "z")] == [1, 2, 1, 0]
    assert [one.lineage for one in inbox.after(0)] == ["", "x", "y", "x"]


def test_another_batch_with_a_number_is_told_from_the_same_batch(tmp_path: Path) -> None:
    first = Inbox(tmp_path / "inbox.db")
    first.commit([entry(1, data=b"mine", lineage="x")])
    assert first.known(entry(1, data=b"mine", lineage="x")) == Known.KEPT
    assert first.known(entry(1, data=b"other", lineage="x")) == Known.TAKEN
    assert first.known(entry(2, data=b"other", lineage="x")) == Known.NEW
    first.close()
    again = Inbox(tmp_path / "inbox.db")
    assert again.known(entry(1, data=b"other", lineage="x")) == Known.TAKEN
    again.close()


def test_batch_without_a_lineage_that_cannot_be_compared_is_not_taken_for_kept(tmp_path: Path) -> None:
    first = Inbox(tmp_path / "inbox.db")
    stored = first.commit([entry(1), entry(1, lineage="x")])
    first.delete(stored[-1].id)
    first.close()
    again = Inbox(tmp_path / "inbox.db")
    assert again.known(entry(1)) == Known.TAKEN
    assert again.known(entry(1, lineage="x")) == Known.KEPT
    again.close()


def test_lineages_used_longest_ago_are_forgotten(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineages, "MAX_LINEAGES", 2)
    inbox.commit([entry(1), entry(1, "other", lineage="x")])
    for lineage in "xyxz":
        inbox.commit([entry(inbox.acked("a", lineage) + 1, lineage=lineage)])
    assert [inbox.acked("a", lineage) for lineage in ("", "x", "y", "z")] == [1, 2, 0, 1]
    assert inbox.acked("other", "x") == 1


def test_inbox_of_before_lineages_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "inbox.db"
    before = sqlite3.connect(path)
    before.executescript(
        """
        create table batch (
            id integer primary key autoincrement, agent text not null, sequence integer not null,
            node integer not null, received_ns integer not null, data blob not null,
            unique (agent, sequence)
        ) strict;
        create table acked (agent text primary key, sequence integer not null) strict, without rowid;
        insert into batch values
            (7, 'a', 3, 1, 10, x'78'), (8, 'a', 4, 1, 10, x'78'), (9, 'b', 1, 1, 10, x'78');
        delete from batch where id = 9;
        insert into acked values ('a', 4), ('b', 1), ('spoiled', 9223372036854775807);
        """
    )
    before.close()
    for _ in range(2):
        inbox = Inbox(path)
        assert list(inbox.after(0)) == [entry(3)._replace(id=7), entry(4)._replace(id=8)]
        assert [inbox.acked(agent) for agent in ("a", "b", "spoiled")] == [4, 1, 0]
        assert inbox.last_id() == 9, "numbers of rows are never used again"
        inbox.close()
    inbox = Inbox(path)
    (stored,) = inbox.commit([entry(5)])
    assert stored.id == 10
    inbox.close()


def test_what_was_committed_does_not_stay_in_memory(inbox: Inbox) -> None:
    """As many statements as there are numbers of batches that come together, each with the last of these."""
    library = ctypes.util.find_library("sqlite3")
    if library is None:
        pytest.skip("there is no library to ask")
    used = ctypes.CDLL(library).sqlite3_memory_used
    used.restype = ctypes.c_int64
    before, sequence = used(), count(1)
    for together in range(1, 33):
        inbox.commit([entry(next(sequence), data=b"x" * 40_000) for _ in range(together)])
    assert 0 < used() - before < 8 << 20, "of 21 MB"
