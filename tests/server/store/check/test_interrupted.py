"""Repairs that are killed, and run again: nothing is lost, nothing is there twice, nothing is left over."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from roofline_server.store.check import adopt
from roofline_server.store.check.reading import check
from roofline_server.store.check.repair import repair
from roofline_server.store.segments.files import Segment

from ...builders import crash, open_store
from ..histories import ALL, JOB, A, greet
from .stores import answers, filled, flip, kinds, lose


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def begun_again(root: Path) -> object:
    """A store whose catalog was lost, and another begun: what it answered before."""
    store = filled(root)
    before = answers(store)
    store.close()
    lose(root, "catalog")
    store = open_store(root)  # what it finds is set apart
    greet(store)
    crash(store)
    return before


@pytest.mark.parametrize("when", ["files are written", "the transaction was made"])
@pytest.mark.parametrize("between", [False, True], ids=["repaired again", "a server started first"])
def test_killed_repair_leaves_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, between: bool
) -> None:
    before = begun_again(tmp_path)

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        if when == "files are written":
            patched.setattr("roofline_server.store.catalog.catalog.Catalog.seal", killed)
        else:
            patched.setattr(adopt, "end_taking", killed)
        repair(tmp_path)
    if between:
        crash(open_store(tmp_path))
    assert repair(tmp_path).left == []
    assert kinds(tmp_path) == []
    assert not list((tmp_path / "quarantine/segments").rglob("*.parquet*"))
    store = open_store(tmp_path)
    assert answers(store) == before
    store.close()


def test_job_whose_processes_are_in_the_inbox_is_not_another_run(tmp_path: Path) -> None:
    """The new catalog has sealed nothing yet: who its processes are is known of the batches alone."""
    filled(tmp_path, len(ALL) - 1).close()
    lose(tmp_path, "catalog")
    store = open_store(tmp_path)
    greet(store)
    node, one = ALL[-1]
    node.put(store, one)
    crash(store)
    repair(tmp_path)
    store = open_store(tmp_path)
    assert set(store.jobs()) == {JOB}
    store.close()


def test_repair_leaves_a_copy_of_what_it_took_in(tmp_path: Path) -> None:
    before = begun_again(tmp_path)
    repair(tmp_path)
    lose(tmp_path, "catalog")
    assert repair(tmp_path).left == []
    store = open_store(tmp_path)
    assert answers(store) == before
    store.close()


def test_log_of_a_former_copy_is_not_applied_to_a_new_one(tmp_path: Path) -> None:
    store = filled(tmp_path)
    copy = tmp_path / "catalog.copy.db"
    with closing(sqlite3.connect(copy)) as db:  # as a repair opens it, which is killed
        db.execute("pragma journal_mode=wal")
        db.execute("create table other as select * from state")
        db.commit()
        log = copy.with_name("catalog.copy.db-wal").read_bytes()
    copy.with_name("catalog.copy.db-wal").write_bytes(log)
    A.put(store, ALL[0][1])
    store._sealer.keep_copy(always=True)
    store.close()
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        assert not db.execute("select name from sqlite_master where name = 'other'").fetchall()
    assert check(tmp_path).problems == []


def test_killed_repair_of_step_deltas_leaves_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    before = answers(store)
    store.close()
    flip(next((tmp_path / "segments/job-job/steps_process").iterdir()))

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Path, "unlink", killed)
        repair(tmp_path)
    repair(tmp_path)
    assert check(tmp_path).findings == []
    store = open_store(tmp_path)
    assert answers(store) == before
    store.close()


@pytest.mark.parametrize(("late_ns", "expected"), [(200_000, True), (20_000_000_000, False)])
def test_marks_of_another_estimate_of_the_clock_are_those_of_the_steps(late_ns: int, expected: bool) -> None:
    marks, steps = (Segment("job", name, name, 1, 1, 5, 9, 0) for name in ("marks", "steps_x"))
    assert adopt.can_be_made_anew([marks._replace(begin_ns=5 + late_ns), steps]) == expected
    assert not adopt.can_be_made_anew([steps])


def test_step_deltas_are_not_made_anew_of_damaged_marks(tmp_path: Path) -> None:
    filled(tmp_path).close()
    marks = sorted((tmp_path / "segments/job-job/marks").iterdir())[-1]
    (steps,) = (tmp_path / "segments/job-job/steps_process").iterdir()
    flip(marks)
    flip(steps)
    repaired = repair(tmp_path)
    assert not any("anew" in line for line in repaired.done)
    assert list(tmp_path.glob(f"quarantine/**/steps_process/{steps.name}")), "set apart, not deleted"
    assert {finding.kind for finding in check(tmp_path).findings} == {"lost"}


def test_file_whose_description_was_damaged_is_not_taken_in_again(tmp_path: Path) -> None:
    """Its pages are sound, and of what it says of its columns only the catalog has a checksum."""
    filled(tmp_path).close()
    path = next((tmp_path / "segments/job-job/samples_tcp").iterdir())
    spoilt = path.read_bytes().replace(b"rank", b"ranj")
    path.write_bytes(spoilt)
    repair(tmp_path)
    repair(tmp_path)
    assert not path.exists()
    assert not list(path.parent.glob("*.parquet")) or all(
        b"ranj" not in other.read_bytes() for other in path.parent.iterdir()
    )
