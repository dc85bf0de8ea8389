from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy.exc
from roofline_server.errors import Unavailable
from roofline_server.report.job.build import build
from roofline_server.store.backup import back_up
from roofline_server.store.check.reading import check
from roofline_server.store.check.repair import repair

from ...builders import UNIX, S, crash, open_store, rank, training
from ..histories import ALL, JOB, A, B, files, greet, marks_in, raw_rows
from .stores import AGAIN, answers, filled, kinds, lose


def test_sound_directory_has_no_problems(tmp_path: Path) -> None:
    filled(tmp_path).close()
    found = check(tmp_path)
    assert found.findings == []
    assert found.segments == len(files(tmp_path)) and found.rows > 1000 and found.batches == 0


def test_what_a_killed_server_leaves_is_no_problem(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (tmp_path / "segments/job-job/marks/000000000099.tmp").write_text("half")
    A.put(store, *training([rank(AGAIN)], batches=2, first_sequence=100))
    crash(store)
    found = check(tmp_path)
    assert found.problems == [] and found.batches == 2
    assert [finding.kind for finding in found.findings] == ["left-over"]


@pytest.mark.parametrize("name", ["nothing", "other files"])
def test_other_directory_is_refused(tmp_path: Path, name: str) -> None:
    if name == "other files":
        (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Unavailable, match="no data directory"):
        check(tmp_path)
    assert not list(tmp_path.glob("*.db"))


# -- a catalog that is lost, damaged or exchanged ------------------------------------------------------


@pytest.mark.parametrize("how", ["lost", "damaged", "emptied"])
def test_catalog_is_made_anew_and_all_answers_are_as_before(tmp_path: Path, how: str) -> None:
    store = filled(tmp_path)
    before = answers(store)
    store.close()
    report = _report(tmp_path)
    lose(tmp_path, "catalog")
    if how == "damaged":
        (tmp_path / "catalog.db").write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 64)
    elif how == "emptied":
        (tmp_path / "catalog.db").touch()
    assert check(tmp_path).problems
    done = repair(tmp_path)
    assert done.left == []
    assert kinds(tmp_path) == []
    again = open_store(tmp_path)
    assert answers(again) == before
    again.close()
    assert _report(tmp_path) == report
    assert kinds(tmp_path) == []


def _report(root: Path) -> Any:
    store = open_store(root)
    view = store.view(JOB)
    assert view
    made = build(view, now_ns=UNIX)
    store.close()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("since", ["lost", "a new catalog"])
def test_files_that_are_younger_than_the_copy_are_taken_in(tmp_path: Path, since: str) -> None:
    store = open_store(tmp_path)
    greet(store)
    sent = training([rank(), rank(index=1, pid=101)], batches=24, stepping=(0, 1))
    for number, one in enumerate(sent):
        A.put(store, one)
        store.seal()
        if number == 8:
            copy = (tmp_path / "catalog.copy.db").read_bytes()
    before = answers(store)
    store.close()
    lose(tmp_path, "catalog")
    (tmp_path / "catalog.copy.db").write_bytes(copy)
    if since == "a new catalog":
        open_store(tmp_path).close()
    repair(tmp_path)
    assert kinds(tmp_path) == []
    again = open_store(tmp_path)
    found = answers(again)
    assert {**found, "processes": 0} == {**before, "processes": 0}
    again.close()


def test_what_the_inbox_holds_is_neither_lost_nor_doubled_when_the_catalog_is_lost(tmp_path: Path) -> None:
    store = filled(tmp_path, 10)
    for node, one in ALL[10:]:
        node.put(store, one)
    before = answers(store)
    crash(store)
    lose(tmp_path, "catalog")
    repair(tmp_path)
    again = open_store(tmp_path)
    assert answers(again) == before
    again.close()


@pytest.mark.parametrize("goes_on", [False, True], ids=["nothing came since", "jobs came since"])
def test_files_in_quarantine_are_taken_in_with_the_ids_of_the_new_catalog(
    tmp_path: Path, goes_on: bool
) -> None:
    store = filled(tmp_path)
    before = answers(store)
    store.close()
    lose(tmp_path, "catalog")
    since = open_store(tmp_path)  # and everything is in quarantine
    assert not since.jobs()
    if goes_on:  # other names get the ids that those of the job had
        B.greet(since)
        B.put(since, *training([rank(AGAIN), rank(AGAIN, index=1, pid=5)], batches=8, first_sequence=100))
        since.seal()
        new = answers(since, AGAIN)
    since.close()
    assert kinds(tmp_path) == ["apart"]
    done = repair(tmp_path)
    assert done.left == [] and kinds(tmp_path) == []
    again = open_store(tmp_path)
    assert answers(again) == before
    if goes_on:
        assert answers(again, AGAIN) == {**new, "machines": answers(again, AGAIN)["machines"]}
        assert again.jobs() == {JOB, AGAIN}
    again.close()
    assert not list((tmp_path / "quarantine").rglob("*.parquet"))


def test_job_that_went_on_without_its_past_gets_it_back(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole")
    wanted = answers(whole)
    whole.close()
    store = filled(tmp_path / "lost", 10)
    store.close()
    lose(tmp_path / "lost", "catalog")
    since = open_store(tmp_path / "lost")
    greet(since)
    for node, one in ALL[10:]:
        node.put(since, one)
    since.close()
    repair(tmp_path / "lost")
    again = open_store(tmp_path / "lost")
    assert answers(again) == wanted
    again.close()


def test_other_job_of_the_same_name_is_another_run(tmp_path: Path) -> None:
    store = filled(tmp_path)
    before = answers(store)
    store.close()
    lose(tmp_path, "catalog")
    since = open_store(tmp_path)
    B.greet(since)
    B.put(since, *training([rank(pid=77, start_ns=90_000_000_000)], batches=3, first_sequence=100))
    since.close()
    done = repair(tmp_path)
    assert any(f"as '{JOB}/2'" in text for text in done.done)
    again = open_store(tmp_path)
    assert again.jobs() == {JOB, f"{JOB}/2"}
    assert answers(again, f"{JOB}/2")["steps"] == before["steps"]
    assert len(again.ranks_of(JOB)) == 1
    again.close()


def test_older_catalog_and_inbox_put_back_lose_nothing_that_files_hold(tmp_path: Path) -> None:
    store = filled(tmp_path, 6)
    store.close()
    old = {name: (tmp_path / name).read_bytes() for name in ("catalog.db", "inbox.db")}
    store = open_store(tmp_path)
    greet(store)
    for node, one in ALL[6:]:
        node.put(store, one)
    store.seal()
    before = answers(store)
    store.close()
    for name, data in old.items():
        lose(tmp_path, name.partition(".")[0])
        (tmp_path / name).write_bytes(data)
    repair(tmp_path)
    again = open_store(tmp_path)
    found = answers(again)
    assert (found["marks"], found["calls"]) == (before["marks"], before["calls"])
    assert found["steps"] == before["steps"]
    again.close()


@pytest.mark.slow
@pytest.mark.parametrize("of", ["files put back", "a backup put back"])
def test_older_catalog_whose_files_were_merged_since_has_their_rows_once(tmp_path: Path, of: str) -> None:
    root, kept = tmp_path / "data", tmp_path / "kept"
    store = open_store(root)
    greet(store)
    sent = training([rank(), rank(index=1, pid=101)], batches=30, stepping=(0, 1))
    for number, one in enumerate(sent):
        A.put(store, one)
        store.seal()
        if number == 5 and of == "a backup put back":
            assert back_up(root, kept, copies=True).is_whole
        elif number == 5:
            store.close()
            kept.mkdir()
            for name in ("catalog.db", "inbox.db"):
                shutil.copyfile(root / name, kept / name)
            store = open_store(root)
    before = answers(store)
    store.close()
    assert any("-" in path.name for path in (root / "segments/job-job/marks").iterdir())
    for name in ("catalog", "inbox"):
        lose(root, name)
        shutil.copyfile(kept / f"{name}.db", root / f"{name}.db")
    assert "missing" in kinds(root)
    done = repair(root)
    assert done.left == [] and kinds(root) == []
    again = open_store(root)
    assert {**answers(again), "processes": 0} == {**before, "processes": 0}
    assert answers(again)["marks"] == marks_in([(A, one) for one in sent])
    # What is sealed from now on gets other numbers than the files that were taken in.
    for one in training([rank(), rank(index=1, pid=101)], batches=12, first_ns=400 * S, first_sequence=31):
        A.put(again, one)
        again.seal()
    again.close()
    third = open_store(root)
    assert raw_rows(third, "samples_tcp") == 2 * 5 * 42
    third.close()
    assert kinds(root) == []


def test_files_whose_rows_are_here_already_are_not_taken_in_twice(tmp_path: Path) -> None:
    store = filled(tmp_path, 6)
    store.close()
    old = {path: path.read_bytes() for path in (tmp_path / "segments").rglob("*.parquet")}
    databases = {name: (tmp_path / name).read_bytes() for name in ("catalog.db", "inbox.db")}
    store = open_store(tmp_path)
    greet(store)
    for node, one in ALL[6:]:
        node.put(store, one)
        store.seal()
    store.close()
    for name, data in databases.items():
        lose(tmp_path, name.partition(".")[0])
        (tmp_path / name).write_bytes(data)
    for path, data in old.items():  # also those that were merged since
        path.write_bytes(data)
    repair(tmp_path)
    again = open_store(tmp_path)
    assert raw_rows(again) <= marks_in(ALL)
    again.close()


def test_without_a_copy_files_stay_in_quarantine_and_it_is_said(tmp_path: Path) -> None:
    filled(tmp_path).close()
    count = len(files(tmp_path))
    lose(tmp_path, "catalog")
    (tmp_path / "catalog.copy.db").unlink()
    done = repair(tmp_path)
    assert any("no sound copy" in text for text in done.left)
    assert len(list((tmp_path / "quarantine").rglob("*.parquet"))) == count
    found = check(tmp_path)
    assert {(finding.kind, finding.job) for finding in found.problems} == {("apart", JOB), ("apart", "")}


@pytest.mark.parametrize("how", [check, repair])
def test_catalog_that_cannot_be_opened_now_is_not_taken_for_damaged(
    tmp_path: Path, how: Callable[[Path], object]
) -> None:
    """As one of another user, or on a full disk."""
    filled(tmp_path).close()
    lose(tmp_path, "catalog")
    (tmp_path / "catalog.db").mkdir()
    with pytest.raises(Unavailable, match="cannot be read now"):
        how(tmp_path)
    assert (tmp_path / "catalog.db").is_dir() and not (tmp_path / "quarantine").exists()


def test_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "catalog.db").mkdir()
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=0))
    for how in (check, repair, open_store):
        with pytest.raises(Unavailable, match="the disk is full"):
            how(tmp_path)


def test_file_system_that_became_read_only_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(**_: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    filled(tmp_path).close()
    store = open_store(tmp_path)
    monkeypatch.setattr("tempfile.TemporaryFile", read_only)
    error = sqlite3.OperationalError("disk I/O error")
    assert store.cause_of(error) == "the file system is read-only"
    of_sqlalchemy = sqlalchemy.exc.OperationalError("commit", None, error)
    assert store.cause_of(of_sqlalchemy) == "the file system is read-only"
    store.close()


def test_log_of_a_lost_catalog_is_kept(tmp_path: Path) -> None:
    filled(tmp_path).close()
    lose(tmp_path, "catalog")
    (tmp_path / "catalog.db-wal").write_bytes(b"its last transactions")
    repair(tmp_path)
    apart = tmp_path / "quarantine/catalogs/catalog.db-wal"
    assert apart.read_bytes() == b"its last transactions"
    assert kinds(tmp_path) == []
