"""A crash loses and doubles nothing; what is damaged or lost costs what it held, and nothing else."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy
from roofline_server.errors import Unavailable
from roofline_server.ingest.service import decode_entry
from roofline_server.report.job.build import build
from roofline_server.sentences import notes as texts
from roofline_server.store.catalog.catalog import Catalog
from roofline_server.store.intake import inbox as inbox_module
from roofline_server.store.intake.inbox import Inbox
from roofline_server.store.intake.lost import WHAT
from roofline_server.store.sealing import writing
from roofline_server.store.store import Store

from ..builders import batch, catalog_of, crash, open_store, rank
from .histories import (
    ALL,
    JOB,
    OF_A,
    OF_B,
    A,
    B,
    Killed,
    all_at_once,
    files,
    greet,
    kill_after,
    kill_before,
    known_files,
    marks_in,
    raw_rows,
    steps,
)


def kill_amid_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "PART_BYTES", 1)
    kill_before(monkeypatch, inbox_module.time, "sleep", 2)


CRASHES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "before the first segment": lambda m: kill_before(m, writing, "write"),
    "after the first segment": lambda m: kill_after(m, writing, "write"),
    "between segments": lambda m: kill_after(m, writing, "write", 4),
    "before a segment has its name": lambda m: kill_before(m, Path, "rename", 2),
    "before the catalog": lambda m: kill_before(m, Catalog, "prepared"),
    "before the catalog is durable": lambda m: kill_before(m, sqlalchemy.Connection, "commit"),
    "after the catalog": lambda m: kill_after(m, sqlalchemy.Connection, "commit"),
    "before the inbox": lambda m: kill_before(m, Inbox, "delete"),
    "amid the inbox": kill_amid_deletion,
    "after the inbox": lambda m: kill_after(m, Inbox, "delete"),
    "before old deltas are removed": lambda m: kill_before(m, Path, "unlink"),
}


# After the catalog's commit nothing can fail but the process; without late data nothing is removed.
ONLY_A_CRASH = ("after the catalog", "before old deltas are removed")


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["in time", "rebuilding"])
@pytest.mark.parametrize("moment", CRASHES)
def test_crash_while_sealing_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, late: bool
) -> None:
    store = open_store(tmp_path)
    greet(store)
    first, second = (ALL[:8], ALL[8:]) if late else (ALL[:3] + ALL[8:11], ALL[3:8] + ALL[11:])
    for node, one in first:
        node.put(store, one)
    store.seal()
    for node, one in second:
        node.put(store, one)
    with monkeypatch.context() as patched:
        CRASHES[moment](patched)
        if late or moment != "before old deltas are removed":
            with pytest.raises(Killed):
                store.seal()
    crash(store)
    again = open_store(tmp_path)
    assert files(tmp_path) == known_files(tmp_path)
    with catalog_of(tmp_path) as catalog, contextlib.closing(Inbox(tmp_path / "inbox.db")) as inbox:
        assert all(entry.id > catalog.sealed_through() for entry in inbox.after(0))
    assert raw_rows(again) == marks_in(ALL)
    again.seal()
    assert raw_rows(again) == marks_in(ALL)
    assert steps(again) == all_at_once(again, ALL)
    again.close()


@pytest.mark.slow
@pytest.mark.parametrize("moment", [m for m in CRASHES if m not in ONLY_A_CRASH])
def test_sealing_that_failed_is_done_again_by_the_same_process(
    store: Store, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    greet(store)
    for node, one in ALL[:5]:
        node.put(store, one)
    with monkeypatch.context() as patched:
        CRASHES[moment](patched)
        with pytest.raises(Killed):
            store.seal()
    for node, one in ALL[5:]:
        node.put(store, one)
    store.seal()
    assert raw_rows(store) == marks_in(ALL)
    assert steps(store) == all_at_once(store, ALL)


def test_crash_after_commit_keeps_the_batch(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A)
    crash(store)
    again = open_store(tmp_path)
    assert again.acked("a") == len(OF_A)
    assert raw_rows(again) == marks_in([(A, one) for one in OF_A])
    assert steps(again) == all_at_once(again, [(A, one) for one in OF_A])
    again.close()


def test_catalog_that_is_lost_takes_no_data_along(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    for node, one in ALL:
        node.put(store, one)
    store.seal()
    known = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    store.close()
    catalog = (tmp_path / "catalog.db").read_bytes()
    for path in tmp_path.glob("catalog.db*"):
        path.unlink()
    open_store(tmp_path).close()
    apart = tmp_path / "quarantine"
    assert {str(p.relative_to(apart)): p.read_bytes() for p in apart.rglob("*.parquet")} == known
    # Put back as the note there says.
    (tmp_path / "catalog.db").write_bytes(catalog)
    for name in known:
        (apart / name).rename(tmp_path / name)
    again = open_store(tmp_path)
    assert raw_rows(again) == marks_in(ALL)
    again.close()


def test_inbox_that_is_lost_costs_what_it_held_and_nothing_that_comes(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    for node, one in ALL[:3]:
        node.put(store, one)
    store.seal()
    store.close()
    for path in tmp_path.glob("inbox.db*"):
        path.unlink()
    again = open_store(tmp_path)
    for node, one in ALL[3:]:
        node.put(again, one)
    crash(again)
    third = open_store(tmp_path)
    assert raw_rows(third) == marks_in(ALL)
    third.close()


@pytest.mark.parametrize("at", [0, 3, 7], ids=["first", "middle", "last"])
def test_damaged_batch_in_the_inbox_costs_itself_and_its_job_says_so(tmp_path: Path, at: int) -> None:
    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A[:1])
    B.put(store, *OF_B)
    store.seal()
    A.put(store, *OF_A[1:])
    crash(store)
    with contextlib.closing(sqlite3.connect(tmp_path / "inbox.db")) as db, db:
        # Another that can be decoded: nothing but the checksum tells.
        other = "(select data from batch where sequence = ?)"
        sequences = OF_A[4].sequence, OF_A[max(at, 1)].sequence
        db.execute(f"update batch set data = {other} where sequence = ?", sequences)
    kept = [(A, one) for number, one in enumerate(OF_A) if number != max(at, 1)] + [(B, one) for one in OF_B]
    again = open_store(tmp_path)
    for _ in range(2):  # in the tail, and sealed
        view = again.view(JOB)
        assert raw_rows(again) == marks_in(kept)
        assert [note for note in build(view).notes if note.startswith("lost")] == [texts.lost(WHAT, 1)]
        again.seal()
    assert again.acked("a") == len(OF_A)
    again.close()
    third = open_store(tmp_path)
    assert raw_rows(third) == marks_in(kept)
    assert [note for note in build(third.view(JOB)).notes if note.startswith("lost")]
    third.close()


def test_catalog_that_is_damaged_is_refused_with_what_to_do(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    (tmp_path / "catalog.db").write_bytes(bytes(range(256)) * 64)
    with pytest.raises(Unavailable, match="check --repair"):
        open_store(tmp_path)


def test_inbox_that_is_older_than_the_catalog_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    ALL[0][0].put(store, ALL[0][1])
    store.close()
    kept = (tmp_path / "inbox.db").read_bytes()
    store = open_store(tmp_path)
    for node, one in ALL[1:]:
        node.put(store, one)
    store.seal()
    store.close()
    (tmp_path / "inbox.db").write_bytes(kept)
    with pytest.raises(Unavailable, match="do not belong together"):
        open_store(tmp_path)


def test_rank_is_known_once_its_batch_is_kept(store: Store) -> None:
    greet(store)
    A.put(store, batch(1, ranks=[rank(index=0)]))
    entry = A.entry(
        store, batch(2, ranks=[rank(index=0), rank(index=1, pid=101), rank(job="other", pid=102)])
    )
    decoded = decode_entry(entry, store.name_ids)  # as of a batch that is not on the disk yet
    assert [key.index for key in store.ranks_of(JOB).values()] == [0]
    assert store.view(JOB).ranks == store.overview(JOB).ranks == store.ranks_of(JOB)
    assert store.jobs() == {JOB}
    assert store.view("other") is None and store.raw("other") is None
    store.commit([(entry, decoded)])
    assert [key.index for key in store.view(JOB).ranks.values()] == [0, 1]
    assert {who.pid for who in store.view("other").process_lifetimes} == {102}
