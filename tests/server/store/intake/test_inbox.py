from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline_server.store.intake.inbox import Entry, Inbox

from ...builders import connections


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    opened = Inbox(tmp_path / "inbox.db")
    yield opened
    opened.close()


def entry(sequence: int, agent: str = "a", data: bytes = b"x") -> Entry:
    return Entry(0, agent, sequence, 1, 10, data)


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
    assert again.commit([entry(2), entry(3)]) == []
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
    assert [row.id for row in again.damaged()] == [2]
    assert again.drop_damaged() == 1 and again.damaged() == []
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
def test_every_agent_keeps_growing_sequences_once(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[tuple[str, int]]], deletions: set[int]
) -> None:
    inbox = Inbox(tmp_path_factory.mktemp("inbox") / "inbox.db")
    taken: list[tuple[str, int]] = []
    highest = {"a": 0, "b": 0}
    for number, group in enumerate(groups):
        stored = inbox.commit(entry(sequence, agent) for agent, sequence in group)
        for agent, sequence in group:
            if sequence > highest[agent]:
                highest[agent] = sequence
                taken.append((agent, sequence))
        assert [(e.agent, e.sequence) for e in stored] == taken[len(taken) - len(stored) :]
        if number in deletions and stored:
            inbox.delete(stored[-1].id)
    assert {agent: inbox.acked(agent) for agent in "ab"} == highest
    inbox.close()
