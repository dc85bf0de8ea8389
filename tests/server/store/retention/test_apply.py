from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.errors import BadRequest, UnknownJob
from roofline_server.records import NODE_JOB, CutLevel, rows
from roofline_server.store.catalog.catalog import Catalog
from roofline_server.store.check.reading import check
from roofline_server.store.check.repair import repair
from roofline_server.store.retention import apply
from roofline_server.store.retention.plan import DAY_NS, Policy
from roofline_server.store.segments import files as segment_files
from roofline_server.store.segments.files import origin_of
from roofline_server.store.segments.leases import Leases
from roofline_server.store.store import Store

from ...builders import BEGIN, END, UNIX, S, batch, catalog_of, crash, marks, open_store, rank
from ..check.stores import lose
from ..histories import (
    ALL,
    JOB,
    OF_A,
    OF_B,
    WORKERS,
    A,
    B,
    Killed,
    alternating,
    files,
    greet,
    kill_after,
    kill_before,
    known_files,
    raw_rows,
    segments,
    steps,
)

Kill = Callable[[pytest.MonkeyPatch, object, str, int], None]
SAME = dict.fromkeys(CutLevel, 1)
RAW_ONLY = Policy(0, deepest=CutLevel.RAW, times=SAME)
STEPS_TOO = Policy(0, deepest=CutLevel.STEPS, times=SAME)
EVERYTHING = Policy(0, times=SAME)


def report(job: str) -> bytes:
    return f"report of {job}".encode()


def filled(root: Path) -> Store:
    store = open_store(root)
    greet(store)
    for at, (node, one) in enumerate(alternating()):
        node.put(store, one)
        if at % 5 == 4:
            store.seal()
    store.seal()
    return store


def datasets(store: Store) -> set[str]:
    return {segment.dataset for segment in segments(store)}


def test_events_of_nodes_count_for_the_size(tmp_path: Path) -> None:
    store = filled(tmp_path)
    A.put(store, *(batch(100 + at, (9000 + at) * S, (9001 + at) * S) for at in range(50)))
    store.seal()
    of_jobs = sum(sum(job.bytes.values()) for job in store.retention._stored())
    assert store._catalog.stored_bytes() > of_jobs
    store.retention.apply(Policy(most_bytes=of_jobs), report)
    assert store._catalog.stored_bytes() <= of_jobs
    store.close()


def test_processes_of_old_jobs_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a minute, of many thousands of jobs: they are over, whether their ends were seen or not."""
    store = filled(tmp_path)
    asked: list[set[str]] = []
    real = Catalog.job_of_ranks

    def job_of_ranks(catalog: Catalog, jobs: set[str]) -> dict[int, str]:
        asked.append(set(jobs))
        return real(catalog, jobs)

    monkeypatch.setattr(Catalog, "job_of_ranks", job_of_ranks)
    monkeypatch.setattr(store.retention, "_now_ns", lambda: UNIX + 1000 * S)
    (recent,) = store.retention._stored()
    monkeypatch.setattr(store.retention, "_now_ns", lambda: UNIX + 2 * DAY_NS)
    (old,) = store.retention._stored()
    assert asked == [{JOB}, set()]
    assert (recent.ended, old.ended) == (False, True)
    assert old.is_over(UNIX + 2 * DAY_NS)
    store.close()


def test_catalog_that_is_lost_amid_a_removal_costs_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    before = steps(store)
    cut = store.retention._cut

    def cut_and_seal(*planned: Any) -> bool:
        done = cut(*planned)
        store.seal()  # there is nothing to seal, so it removes files that nobody reads any more
        return done

    monkeypatch.setattr(store.retention, "_cut", cut_and_seal)
    kill_before(monkeypatch, store.retention, "_keep_copy", 1)
    with pytest.raises(Killed):
        store.retention.apply(RAW_ONLY, report)
    crash(store)
    lose(tmp_path, "catalog")
    assert repair(tmp_path).left == []
    again = open_store(tmp_path)
    assert steps(again) == before
    again.close()


def test_files_stay_while_the_catalog_cannot_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    raw = {one.path for one in segments(store, "marks")}
    with monkeypatch.context() as failing:
        failing.setattr(store.retention, "_keep_copy", lambda: False)
        store.retention.apply(RAW_ONLY, report)
    store.seal()
    assert raw <= files(tmp_path)
    store.retention.apply(Policy(), report)
    assert not raw & files(tmp_path)
    store.close()


def test_steps_that_a_removal_writes_say_of_which_store_they_are(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.retention.apply(RAW_ONLY, report)
    for one in segments(store, "steps"):
        said = origin_of(pq.read_schema(tmp_path / one.path).metadata)
        assert said and said.store
    store.close()


def test_no_step_is_lost_with_the_raw_data(tmp_path: Path) -> None:
    store = filled(tmp_path)
    before = steps(store)
    assert len(before["steps"]) == 342
    (cut,) = store.retention.apply(RAW_ONLY, report)
    assert (cut.job, cut.level) == (JOB, CutLevel.RAW)
    assert {name for name in datasets(store) if not name.startswith(("steps", "parts_"))} == {"events"}
    assert steps(store) == before
    assert files(tmp_path) == known_files(tmp_path)
    view = store.view(JOB)
    assert view and view.removed
    assert view.removed.level == CutLevel.RAW
    store.close()
    again = open_store(tmp_path)
    assert steps(again) == before
    again.close()


def test_raw_data_are_removed_once(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.retention.apply(RAW_ONLY, report)
    removed = store.removed(JOB)
    assert store.retention.apply(RAW_ONLY, report) == []
    assert store.removed(JOB) == removed
    store.close()


def test_removed_rows_and_bytes_are_counted(tmp_path: Path) -> None:
    store = filled(tmp_path)
    raw = [s for s in segments(store) if not s.is_derived and s.dataset != "events"]
    store.retention.apply(RAW_ONLY, report)
    removed = store.removed(JOB)
    assert removed is not None
    assert removed.rows == sum(s.rows for s in raw)
    assert removed.bytes == sum(s.bytes for s in raw)
    assert removed.end_ns == max(s.end_ns for s in raw)
    store.close()


def test_steps_go_and_the_report_of_before_stays(tmp_path: Path) -> None:
    store = filled(tmp_path)
    seen: list[int] = []

    def made(job: str) -> bytes:
        view = store.view(job)
        seen.append(rows(view.steps["steps"]) if view else 0)
        return report(job)

    store.retention.apply(STEPS_TOO, made)
    assert seen == [342]
    assert segments(store) == []
    assert files(tmp_path) == known_files(tmp_path)
    assert store.kept_report(JOB) == report(JOB)
    assert store.jobs() == {JOB}
    view = store.view(JOB)
    assert view and not view.steps and len(view.process_lifetimes) == 4
    store.retention.apply(EVERYTHING, report)
    assert store.kept_report(JOB) is None
    assert store.jobs() == {JOB}
    removed = store.removed(JOB)
    assert removed and removed.level == CutLevel.REPORT
    store.close()


def test_clocks_of_a_job_go_with_its_steps(tmp_path: Path) -> None:
    store = filled(tmp_path)
    with catalog_of(tmp_path) as catalog:
        for job in (JOB, "other"):
            catalog.put_job_clock(job, 1, [[0, UNIX, 100]])
        store.retention.apply(RAW_ONLY, report)
        assert set(catalog.job_clocks()) == {(JOB, 1), ("other", 1)}
        store.retention.apply(STEPS_TOO, report)
        assert set(catalog.job_clocks()) == {("other", 1)}
    store.close()


def test_job_that_no_report_can_be_made_of_goes_too(tmp_path: Path) -> None:
    store = filled(tmp_path)

    def broken(job: str) -> bytes:
        raise ArithmeticError("a job that cannot be understood")

    store.retention.apply(STEPS_TOO, broken)
    assert segments(store) == []
    assert store.kept_report(JOB) is None
    store.close()


def test_job_without_steps_keeps_its_report_when_its_samples_go(store: Store) -> None:
    A.greet(store)
    for one in ALL[:8]:
        sent = pb.Batch()
        sent.CopyFrom(one[1])
        for field in ("marks", "spans", "calls", "steps"):
            sent.ClearField(field)
        A.put(store, sent)
    store.seal()
    store.retention.apply(RAW_ONLY, report)
    removed = store.removed(JOB)
    assert removed and removed.level == CutLevel.STEPS
    assert store.kept_report(JOB) == report(JOB)


def test_what_is_read_stays_until_the_reader_is_done(tmp_path: Path) -> None:
    store = filled(tmp_path)
    raw = store.raw(JOB)
    assert raw
    paths = [tmp_path / s.path for s in raw.segments if s.dataset == "calls"]
    store.retention.apply(RAW_ONLY, report)
    assert paths and all(path.exists() for path in paths)
    del raw
    gc.collect()
    store.retention.apply(RAW_ONLY, report)
    assert not any(path.exists() for path in paths)
    store.close()


def test_job_with_unsealed_data_stays_whole(store: Store) -> None:
    greet(store)
    for node, one in ALL[:-1]:
        node.put(store, one)
    store.seal()
    ALL[-1][0].put(store, ALL[-1][1])
    assert store.retention.apply(EVERYTHING, report) == []
    with pytest.raises(BadRequest, match="may still send data"):
        store.retention.plan(EVERYTHING._replace(job=JOB))
    with pytest.raises(UnknownJob):
        store.retention.plan(EVERYTHING._replace(job="nobody's"))


def test_data_that_come_after_the_cut_are_seen_and_spoil_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path)
    before = steps(store)["steps"]
    store.retention.apply(RAW_ONLY, report)
    began = 500 * S
    late = batch(
        9,
        began,
        began + 60 * S,
        ranks=WORKERS,
        marks=marks([(0, BEGIN, 900, 1, began + S), (0, END, 900, 1, began + 2 * S)]),
    )
    A.put(store, late)
    assert len(steps(store)["steps"]) > len(before)
    assert set(before) <= set(steps(store)["steps"])
    store.seal()
    assert set(before) <= set(steps(store)["steps"])
    assert raw_rows(store) == 2
    store.close()


@pytest.mark.parametrize("sealed", [False, True])
def test_job_that_changes_after_the_plan_stays_until_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sealed: bool
) -> None:
    """What has come since is in no report that was made before."""
    store = open_store(tmp_path)
    greet(store)
    *first, (node, last) = ALL
    for one, sent in first:
        one.put(store, sent)
    store.seal()
    seen: list[int] = []

    def made(job: str) -> bytes:
        if not seen:
            node.put(store, last)
            if sealed:
                store.seal()
        seen.append(raw_rows(store))
        return report(job)

    assert store.retention.apply(STEPS_TOO, made) == []
    assert "job job: it has changed since" in caplog.text
    assert raw_rows(store) == seen[0] and store.removed(JOB) is None and store.kept_report(JOB) is None
    store.seal()
    assert len(store.retention.apply(STEPS_TOO, made)) == 1
    assert seen[1] == seen[0] and store.kept_report(JOB) == report(JOB)
    store.close()


def test_late_data_of_a_time_before_the_cut_do_not_have_steps_made_anew(tmp_path: Path) -> None:
    """They would be made of nothing."""
    store = open_store(tmp_path)
    greet(store)
    for node, one in ALL[:-2]:
        node.put(store, one)
    store.seal()
    store.retention.apply(RAW_ONLY, report)
    before = steps(store)["steps"]
    for node, one in ALL[-2:]:
        node.put(store, one)
    assert set(before) <= set(steps(store)["steps"])
    store.seal()
    assert set(before) <= set(steps(store)["steps"])
    assert raw_rows(store)
    store.close()


def test_node_that_was_cut_off_all_the_time_is_seen_whole(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A)
    store.seal()
    store.retention.apply(RAW_ONLY, report)
    for some in (OF_B[:4], OF_B[4:]):
        B.put(store, *some)
        store.seal()
    view = store.view(JOB)
    assert view
    late = {number for number, key in view.ranks.items() if key == (JOB, "worker", 2)}
    seen = [
        step
        for who, step in zip(*(view.steps["steps"][n].tolist() for n in ("rank", "step")), strict=True)
        if who in late
    ]
    assert sorted(seen) == list(range(57))
    store.close()


@pytest.mark.parametrize("policy", [RAW_ONLY, STEPS_TOO, EVERYTHING])
@pytest.mark.parametrize(
    ("when", "owner", "name", "turn"),
    [
        (kill_before, apply, "write", 1),
        (kill_after, apply, "write", 1),
        (kill_after, apply, "write", 2),
        (kill_before, segment_files, "footer_checksum", 1),
        (kill_before, Catalog, "remove", 1),
        (kill_after, Catalog, "remove", 1),
        (kill_before, Leases, "replaced", 1),
        (kill_before, Leases, "remove", 1),
        (kill_after, Leases, "remove", 1),
        (kill_before, Catalog, "forget_unwanted", 1),
        (kill_before, os, "unlink", 2),
    ],
)
def test_a_kill_leaves_no_file_and_no_row_behind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: Policy,
    when: Kill,
    owner: object,
    name: str,
    turn: int,
) -> None:
    store = filled(tmp_path)
    before = steps(store)
    with monkeypatch.context() as patch:
        when(patch, owner, name, turn)
        try:
            store.retention.apply(policy, report)
        except Killed:
            crash(store)
        else:  # there was nothing to be killed in
            store.close()
    store = open_store(tmp_path)
    assert files(tmp_path) == known_files(tmp_path)
    with catalog_of(tmp_path) as catalog:
        assert catalog.unwanted() == []
    assert not (tmp_path / "quarantine").exists()
    assert steps(store) == before or store.kept_report(JOB) or store.removed(JOB)
    store.retention.apply(policy, report)
    assert files(tmp_path) == known_files(tmp_path)
    removed = store.removed(JOB)
    assert removed and removed.level == policy.deepest
    if policy == RAW_ONLY:
        assert steps(store) == before
    store.close()


def test_sizes_are_kept_to(tmp_path: Path) -> None:
    store = filled(tmp_path)
    size = sum(s.bytes for s in segments(store))
    assert store.retention.apply(Policy(most_bytes=10 * size), report) == []
    assert len(store.retention.apply(Policy(most_bytes=size // 2), report)) == 1
    assert len(store.retention.apply(Policy(most_bytes=0), report)) == 1
    assert segments(store) == []
    store.close()


def test_no_job_is_cut_once_the_store_is_closed(tmp_path: Path) -> None:
    """Another server may work there then."""
    store = filled(tmp_path)
    store.retention.close()
    assert store.retention.apply(EVERYTHING, report) == []
    store.close()
    again = open_store(tmp_path)
    assert again.removed(JOB) is None
    again.close()


def test_events_of_nodes_go_with_the_last_job_that_needs_them(tmp_path: Path) -> None:
    store = filled(tmp_path)

    def events() -> int:
        with catalog_of(tmp_path) as catalog:
            return sum(s.rows for s in catalog.segments(NODE_JOB))

    count = events()
    store.retention.apply(RAW_ONLY, report)
    assert events() == count > 0  # a report of the steps that are left names gaps by them
    store.retention.apply(STEPS_TOO, report)
    assert events() == 0
    assert files(tmp_path) == known_files(tmp_path) == set()
    store.close()


def test_other_jobs_answer_as_before(tmp_path: Path) -> None:
    store = filled(tmp_path)
    other = [rank(job="other", pid=900)]
    made = [batch(9 + n, (900 + n) * S, (901 + n) * S, ranks=other) for n in range(3)]
    for one in made:
        one.marks.CopyFrom(marks([(0, BEGIN, 1, 1, one.begin_ns), (0, END, 1, 1, one.begin_ns + S // 2)]))
    A.put(store, *made)
    store.seal()
    before = steps(store, "other")
    store.retention.apply(EVERYTHING._replace(job=JOB), report)
    assert steps(store, "other") == before
    assert store.removed("other") is None
    store.close()


@pytest.mark.parametrize("policy", [RAW_ONLY, STEPS_TOO, EVERYTHING])
def test_catalog_made_anew_misses_nothing_that_was_removed(tmp_path: Path, policy: Policy) -> None:
    store = filled(tmp_path)
    store.retention.apply(policy, report)
    before, gone = store.jobs(), store.removed(JOB)
    crash(store)  # so that nothing is copied at its end
    assert check(tmp_path).problems == []
    for name in ("catalog.db", "catalog.db-wal", "catalog.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    assert repair(tmp_path).left == []
    assert check(tmp_path).problems == []
    again = open_store(tmp_path)
    assert (again.jobs(), again.removed(JOB)) == (before, gone)
    again.close()
