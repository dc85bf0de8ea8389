from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy
from hypothesis import example, given
from hypothesis import strategies as st
from roofline.v1 import ingest_pb2 as pb
from roofline_server.errors import BadBatch, Unavailable
from roofline_server.ingest.service import decode_entry
from roofline_server.records import ABSENT, RECORDING, ClockSample, NodeKey, rows
from roofline_server.report.job.build import build
from roofline_server.sentences import notes as texts
from roofline_server.store.catalog import catalog as catalog_module
from roofline_server.store.catalog import name_ids
from roofline_server.store.catalog.catalog import Catalog
from roofline_server.store.catalog.clocks import ClockRegistry
from roofline_server.store.intake import inbox as inbox_module
from roofline_server.store.intake.inbox import Inbox
from roofline_server.store.intake.lost import WHAT
from roofline_server.store.sealing import writing
from roofline_server.store.segments.reader import Reader
from roofline_server.store.steps.deltas import Deltas
from roofline_server.store.steps.sealed import SILENT_NS
from roofline_server.store.store import Store

from tests.fakes import wait_for

from ..builders import (
    BEGIN,
    END,
    GAUGE,
    MS,
    UNIX,
    Node,
    S,
    batch,
    catalog_of,
    connections,
    counter_set,
    crash,
    machine,
    marks,
    open_store,
    packed,
    rank,
    samples,
    spans,
    training,
)
from .histories import (
    ALL,
    JOB,
    OF_A,
    OF_B,
    OTHERS,
    QUICK,
    WORKERS,
    A,
    B,
    Killed,
    all_at_once,
    alternating,
    files,
    greet,
    kill_after,
    kill_before,
    known_files,
    marks_in,
    play,
    raw_rows,
    segments,
    steps,
    stored_through,
    whole,
)


def restarts(count: int) -> list[pb.Batch]:
    """One rank, a process after the other; every second one is described as a recorded file is."""
    return [
        batch(n, n * S, (n + 1) * S, ranks=[rank(start_ns=n, framework="recorded" if n % 2 else "")])
        for n in range(1, count + 1)
    ]


def test_node_that_starts_one_rank_without_end_is_refused_and_others_are_not(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(name_ids.MAX_BROUGHT, "processes", 4)
    *sent, last = restarts(5)
    A.put(store, *sent)
    with pytest.raises(BadBatch, match="too many processes"):
        A.put(store, last)
    A.put(store, batch(6, 10 * S, 11 * S, ranks=sent[-1].ranks))
    B.put(store, *sent)
    store.seal()
    with catalog_of(tmp_path / "data") as catalog:
        assert len(catalog.process_lifetimes()) == 8
        assert len(catalog.run_processes()) == 4


def test_unsealed_data_are_seen(store: Store) -> None:
    greet(store)
    for node, one in alternating():
        node.put(store, one)
    found = steps(store)
    assert found == all_at_once(store, ALL)
    assert set(found) == {"steps", "steps_process", "steps_tcp", "steps_kernels"}
    assert len(found["steps"]) == 3 * 57 * 2  # three workers, and the server once more for each of theirs


def test_sealing_changes_nothing_that_is_seen(store: Store) -> None:
    greet(store)
    for node, one in alternating():
        node.put(store, one)
    before = steps(store)
    assert store.seal() == len(ALL)
    assert steps(store) == before
    assert store.seal() == 0
    assert store.unsealed_bytes == 0
    assert steps(store) == before


def test_catalog_has_the_times_of_segments_on_the_servers_clock(store: Store) -> None:
    greet(store)
    for node, one in alternating():
        node.put(store, one)
    store.seal()
    extents = {s.dataset: (s.begin_ns, s.end_ns) for s in segments(store)}
    assert extents["samples_process"] == (100 * S + UNIX, 139 * S + UNIX + 123)
    assert extents["events"] == (100 * S + UNIX, 140 * S + UNIX + 123)
    assert all(begin >= 100 * S + UNIX for begin, _ in extents.values())


def test_step_deltas_are_stored_when_all_nodes_are_beyond_them(store: Store) -> None:
    greet(store)
    for node, one in alternating():
        node.put(store, one)
    store.seal()
    stored = sum(segment.rows for segment in segments(store) if segment.dataset == "steps")
    assert 0.7 * 342 < stored < 342


def test_last_step_deltas_of_a_job_are_stored_once_its_nodes_are_beyond_them(store: Store) -> None:
    A.greet(store)
    sent = training(WORKERS[:1])
    A.put(store, *sent)
    store.seal()
    last, before = sent[-1], steps(store)
    assert 0 < stored_through(store) < steps_end(store)
    # Nothing more comes of the job: only its node goes on.
    A.put(store, batch(last.sequence + 1, last.end_ns, last.end_ns + 30 * S))
    store.seal()
    assert stored_through(store) == steps_end(store)
    assert steps(store) == before


def steps_end(store: Store) -> int:
    """When the last step of the job ended, server time."""
    view = store.view(JOB)
    assert view
    return int(view.steps["steps"]["end_ns"].max())


def test_nobody_has_heard_of_the_job(store: Store) -> None:
    assert store.view("another") is None


def test_jobs_do_not_see_each_other(store: Store) -> None:
    greet(store)
    A.put(store, *training([rank("one")], batches=2))
    B.put(store, *training([rank("two")], batches=3))
    store.seal()
    assert store.jobs() == {"one", "two"}
    assert store.newest_jobs() == ["two", "one"]
    for job, batches in (("one", 2), ("two", 3)):
        view = store.view(job)
        assert view
        assert len(view.ranks) == 1
        assert rows(view.steps["steps"]) == len(range(0, batches * 50 - 6, 7))
        assert raw_rows(store, "samples_process", job) == batches * 5


def test_batches_sent_again_are_not_doubled(store: Store) -> None:
    greet(store)
    A.put(store, *OF_A[:4])
    before = steps(store)
    A.put(store, *OF_A[:4])
    store.seal()
    A.put(store, *OF_A[:4])
    assert steps(store) == before
    assert store.acked("a") == 4


@pytest.mark.slow
@QUICK
@given(actions=st.lists(st.sampled_from(("a", "b", "seal")), min_size=6, max_size=24))
def test_no_row_is_lost_or_doubled_whatever_the_order_of_batches_and_sealing(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str]
) -> None:
    play(tmp_path_factory.mktemp("data"), actions, whole)


@pytest.mark.slow
@QUICK
@example(actions=["a", "b", "reopen", "a", "seal", "a"])
@given(actions=st.lists(st.sampled_from(("a", "b", "seal", "reopen", "crash")), min_size=6, max_size=24))
def test_no_row_is_lost_or_doubled_whatever_the_order_of_sealing_and_restarts(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str]
) -> None:
    play(tmp_path_factory.mktemp("data"), actions, whole)


def test_late_node_has_the_deltas_rebuilt(store: Store, tmp_path: Path) -> None:
    greet(store)
    A.put(store, *OF_A)
    store.seal()
    root = tmp_path / "data"
    old = {segment.path for segment in segments(store, "steps")}
    assert old and old < files(root)
    B.put(store, *OF_B)
    store.seal()
    assert steps(store) == all_at_once(store, ALL)
    assert not old & known_files(root)
    assert not old & files(root)


def test_late_node_is_seen_before_the_next_sealing(store: Store) -> None:
    greet(store)
    A.put(store, *OF_A)
    store.seal()
    B.put(store, *OF_B)
    assert steps(store) == all_at_once(store, ALL)


def test_node_that_is_behind_holds_up_the_step_deltas(store: Store) -> None:
    greet(store)
    B.put(store, OF_B[0])
    A.put(store, *OF_A)
    store.seal()
    assert stored_through(store) <= OF_B[0].end_ns + B.offset_ns
    B.put(store, *OF_B[1:])
    assert steps(store) == all_at_once(store, ALL)


def test_node_that_is_silent_for_long_holds_up_nothing(store: Store) -> None:
    greet(store)
    B.put(store, OF_B[0])
    late = training(WORKERS[:1], batches=2, first_ns=200 * S + SILENT_NS)
    A.put(store, *late)
    store.seal()
    assert stored_through(store) > late[0].begin_ns + A.offset_ns


# -- crashes ---------------------------------------------------------------------------------------


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


# -- full disk, bad directories --------------------------------------------------------------------


def test_full_disk_takes_nothing_of_a_group_and_leaves_earlier_data_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = connections(monkeypatch)
    store = open_store(tmp_path)
    greet(store)
    A.put(store, OF_A[0])
    inbox = opened["inbox.db"]
    pages = inbox.execute("pragma page_count").fetchone()[0]
    inbox.execute(f"pragma max_page_count = {pages + 1}")
    with pytest.raises(sqlite3.OperationalError):
        A.put(store, *OF_A[1:])
    assert store.acked("a") == 1
    assert raw_rows(store) == marks_in([(A, OF_A[0])])
    assert [key.index for key in store.ranks_of(JOB).values()] == [0, 1]
    inbox.execute("pragma max_page_count = 1000000")
    A.put(store, *OF_A[1:])
    assert steps(store) == all_at_once(store, [(A, one) for one in OF_A])
    store.close()


def test_disk_that_is_full_while_sealing_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    greet(store)
    A.put(store, *OF_A)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(writing, "write", full)
        with pytest.raises(OSError, match="No space"):
            store.seal()
    assert store.seal() == len(OF_A)
    assert steps(store) == all_at_once(store, [(A, one) for one in OF_A])


@pytest.mark.parametrize("took", [False, True], ids=["before it has", "when it has"])
def test_catalog_that_fails_as_it_takes_a_sealing_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took: bool
) -> None:
    """As when the connection to it is lost, before the answer comes or before it was asked."""
    real = Catalog.prepared

    @contextlib.contextmanager
    def prepared(self: Catalog, sealing: Any) -> Iterator[Callable[[], None]]:
        with real(self, sealing) as commit:

            def fail() -> None:
                if took:
                    commit()
                raise sqlalchemy.exc.OperationalError("commit", None, Exception("connection lost"))

            yield fail

    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A[:2])
    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "prepared", prepared)
        if took:
            assert store.seal() == 2
        else:
            with pytest.raises(sqlalchemy.exc.OperationalError):
                store.seal()
    assert files(tmp_path) == known_files(tmp_path)
    A.put(store, *OF_A[2:])
    assert store.seal() == len(OF_A) - (2 if took else 0)
    assert files(tmp_path) == known_files(tmp_path)
    assert raw_rows(store) == marks_in([(A, one) for one in OF_A])
    store.close()


@pytest.mark.parametrize("took", [False, True], ids=["before it has", "when it has"])
def test_catalog_that_is_away_after_a_sealing_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took: bool
) -> None:
    """Whether it has taken the sealing is known only when it is back."""
    real = Catalog.prepared

    def fail(*_: Any) -> Any:
        raise sqlalchemy.exc.OperationalError("commit", None, Exception("connection lost"))

    @contextlib.contextmanager
    def prepared(self: Catalog, sealing: Any) -> Iterator[Callable[[], None]]:
        with real(self, sealing) as commit:

            def take_and_go() -> None:
                if took:
                    commit()
                away.setattr(Catalog, "sealed_through", fail)
                fail()

            yield take_and_go

    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A[:2])
    with monkeypatch.context() as away:
        away.setattr(Catalog, "prepared", prepared)
        with pytest.raises(sqlalchemy.exc.OperationalError):
            store.seal()
    A.put(store, *OF_A[2:])
    assert store.seal() == len(OF_A) - (2 if took else 0)
    assert files(tmp_path) == known_files(tmp_path)
    assert raw_rows(store) == marks_in([(A, one) for one in OF_A])
    store.close()


def test_batches_are_kept_while_the_catalog_is_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    greet(store)
    A.put(store, *OF_A[:2])
    real = catalog_module._put_lifetimes

    def put(*given: Any) -> None:
        real(*given)
        other = threading.Thread(target=A.put, args=(store, OF_A[2]))
        other.start()
        other.join(20)
        assert not other.is_alive()

    monkeypatch.setattr(catalog_module, "_put_lifetimes", put)
    assert store.seal() == 2
    assert store.unsealed_bytes > 0
    assert steps(store) == all_at_once(store, [(A, one) for one in OF_A[:3]])


def test_disk_that_is_full_at_the_start_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    open_store(tmp_path).close()
    monkeypatch.setattr(Inbox, "delete", full)
    with pytest.raises(Unavailable, match="disk is full"):
        open_store(tmp_path)


def test_file_in_place_of_the_directory_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(Unavailable, match="data"):
        open_store(tmp_path / "data")


def test_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "inbox.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(Unavailable, match="not a database"):
        open_store(tmp_path)


# -- who and when ----------------------------------------------------------------------------------


def test_life_lasts_from_the_first_batch_to_the_last(store: Store) -> None:
    greet(store)
    A.put(store, *OF_A)
    for _ in range(2):
        (life,) = set(store.overview(JOB).process_lifetimes.values())
        assert (life.first_ns, life.last_ns, life.exited) == (OF_A[0].begin_ns, OF_A[-1].end_ns, False)
        store.seal()


def test_life_survives_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A)
    store.close()
    again = open_store(tmp_path)
    (life,) = set(again.overview(JOB).process_lifetimes.values())
    assert (life.first_ns, life.last_ns, life.exited) == (OF_A[0].begin_ns, OF_A[-1].end_ns, False)
    again.close()


def test_exit_is_remembered(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    last = training(WORKERS[:1], batches=1)[0]
    last.events.add(kind=pb.EVENT_KIND_RANK_EXITED, rank=0, begin_ns=last.end_ns, end_ns=last.end_ns)
    A.put(store, last)
    A.put(store, batch(2, last.end_ns, last.end_ns + S))
    assert [life.exited for life in store.overview(JOB).process_lifetimes.values()] == [True]
    store.close()
    again = open_store(tmp_path)
    assert [life.exited for life in again.overview(JOB).process_lifetimes.values()] == [True]
    again.close()


def test_rank_without_steps_has_one_row_for_its_life(store: Store) -> None:
    greet(store)
    A.put(store, *training([rank(role="ps")], stepping=()))
    for _ in range(2):
        view = store.view(JOB)
        assert view
        assert view.steps == {}
        process = view.time_windows["steps_process"]
        assert (process["end_ns"] - process["begin_ns"]).sum() == 39 * S
        assert (process["cpu_ns.end"] - process["cpu_ns.begin"]).sum() == 39 * S // 2
        assert view.time_windows["steps"]["begin_ns"].tolist() == process["begin_ns"].tolist()
        store.seal()


def test_of_ranks_without_steps_what_is_needed_is_read(store: Store) -> None:
    greet(store)
    A.put(store, *training([rank(), rank(index=1, pid=101)]))
    for _ in range(2):
        whole, some, nothing = (
            store.view(JOB, needed)
            for needed in (None, {"steps": [], "steps_process": ["cpu_ns.end"]}, {"steps": []})
        )
        assert whole and some and nothing
        without = {number for number, key in whole.ranks.items() if key.index == 1}
        assert all(set(table["rank"].tolist()) == without for table in whole.time_windows.values())
        process, cpu = whole.time_windows["steps_process"], some.time_windows["steps_process"]
        assert "rss_bytes" in process and "rss_bytes" not in cpu
        assert all(np.array_equal(process[name], cpu[name]) for name in cpu)
        assert nothing.time_windows == {}
        store.seal()


def test_node_that_said_nothing_of_its_clock_is_placed_by_arrival(store: Store) -> None:
    A.put(store, *OF_A[:2])
    view = store.view(JOB)
    assert view
    clock = view.clocks[next(iter(view.machines))]
    assert not clock.is_measured
    assert clock.to_server(np.array([OF_A[0].end_ns])).tolist() == [OF_A[0].end_ns + UNIX]


def test_clock_by_arrival_survives_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    A.put(store, *OF_A)
    before = steps(store)
    store.close()
    again = open_store(tmp_path)
    try:
        clock = again.clocks()[next(iter(again.name_ids.machines()))]
        assert clock.to_server(np.array([5])).tolist() == [5 + UNIX]
        assert steps(again) == before
    finally:
        again.close()


# -- what sealed deltas must not depend on ---------------------------------------------------------


@pytest.mark.parametrize("shift_ns", [-700 * MS, 700 * MS])
def test_exchange_that_corrects_the_clock_loses_and_doubles_no_step(store: Store, shift_ns: int) -> None:
    A.greet(store, rtt_ns=int(1.8 * S))
    A.put(store, *OF_A)
    store.seal()
    assert segments(store, "steps")
    store.add_clock_sample(A.number(store), ClockSample(1, UNIX + shift_ns, 1000))
    view = store.view(JOB)
    assert view
    found = view.steps["steps"]
    each = list(zip(found["rank"].tolist(), found["step"].tolist(), strict=True))
    assert len(each) == len(set(each))
    assert len(each) == 2 * 57


@pytest.mark.parametrize("arrives_after_ns", [MS, 60 * S, 10**17])
def test_first_exchange_after_a_sealing_loses_and_doubles_no_step(
    store: Store, arrives_after_ns: int
) -> None:
    late = Node(A.agent, UNIX + arrives_after_ns, A.host)
    late.put(store, *OF_A)
    store.seal()
    assert not segments(store, "steps"), "nothing that depends on a clock that nobody measured is for good"
    A.greet(store)
    expected = all_at_once(store, [(A, one) for one in OF_A])
    assert steps(store) == expected
    A.put(store, batch(len(OF_A) + 1, 200 * S, 220 * S, ranks=WORKERS))
    store.seal()
    assert segments(store, "steps")
    assert steps(store) == expected


def test_steps_of_a_recorded_file_are_stored_without_an_exchange(store: Store) -> None:
    class File(Node):
        def number(self, store: Store) -> int:
            return store.hello(NodeKey(self.agent, RECORDING), machine(self.host))

    file, sent = File("file", offset_ns=0), training(WORKERS, stepping=(0, 1), first_ns=UNIX)
    file.put(store, *sent)
    store.seal()
    assert segments(store, "steps")
    assert steps(store) == all_at_once(store, [(file, one) for one in sent])


def sealed_one_by_one(store: Store, sent: list[pb.Batch]) -> None:
    A.greet(store)
    for one in sent:
        A.put(store, one)
        store.seal()
    assert steps(store) == all_at_once(store, [(A, one) for one in sent])


def test_sealing_after_every_batch_changes_nothing(store: Store) -> None:
    sealed_one_by_one(store, OF_A)


def marks_only(per_batch: list[list[tuple[int, int, int, int, int]]], ranks: list[pb.Rank]) -> list[pb.Batch]:
    return [
        batch(i + 1, (100 + 20 * i) * S, (120 + 20 * i) * S, ranks=ranks, marks=marks(found))
        for i, found in enumerate(per_batch)
    ]


def test_steps_that_overlap_within_a_rank_outlive_sealing(store: Store) -> None:
    sealed_one_by_one(
        store,
        marks_only(
            [
                [(0, BEGIN, 1, 1, 101 * S), (0, BEGIN, 2, 1, 102 * S)],
                [(0, END, 1, 1, 122 * S)],
                [],
                [(0, END, 2, 1, 162 * S)],
            ],
            WORKERS[:1],
        ),
    )


def test_step_of_minutes_outlives_sealing(store: Store) -> None:
    sealed_one_by_one(
        store,
        marks_only([[(0, BEGIN, 1, 1, 101 * S)], *[[]] * 10, [(0, END, 1, 1, 325 * S)], []], WORKERS[:1]),
    )


def test_chief_that_stops_marking_does_not_get_the_workers_steps(store: Store) -> None:
    chief = [rank(), rank(role="chief", pid=101)]
    sealed_one_by_one(
        store,
        marks_only(
            [
                [
                    (r, k, i, 1, (100 + 20 * i + 2 + k) * S)
                    for r in (0, 1)
                    for k in (BEGIN, END)
                    if r == 0 or i < 2
                ]
                for i in range(6)
            ],
            chief,
        ),
    )


def with_phases(sent: list[pb.Batch]) -> list[pb.Batch]:
    """The same batches, and with the end of each step the phases it had."""
    for one in sent:
        ends = [t for k, t in zip(*read_marks(one), strict=True) if k == END]
        one.spans.CopyFrom(
            spans(
                [(0, "phase.input", t - 40 * MS, t - 10 * MS, ABSENT, 1) for t in ends]
                + [(0, "asked.allreduce", t - MS, t, 100, 3) for t in ends]
            )
        )
    return sent


def read_marks(one: pb.Batch) -> tuple[list[int], list[int]]:
    kinds, times = (np.frombuffer(column, "<i8").tolist() for column in (one.marks.kind, one.marks.time_ns))
    return kinds, times


def test_phases_of_steps_outlive_sealing(store: Store) -> None:
    sealed_one_by_one(store, with_phases(training(WORKERS[:1])))
    view = store.view(JOB)
    assert view
    found = view.steps["steps_spans"]
    assert len(found["step"]) == len(view.steps["steps"]["step"])
    assert set(found["phase.input.ns"].tolist()) == {30 * MS}
    assert set(found["asked.allreduce.count"].tolist()) == {3}
    assert set(found["asked.allreduce.bytes"].tolist()) == {100}


def test_long_step_marked_at_its_end_only_has_its_counters(store: Store) -> None:
    sent = training(WORKERS[:1], batches=12, stepping=())
    begin, end = 102 * S, 142 * S
    sent[8].marks.CopyFrom(marks([(0, BEGIN, 7, ABSENT, begin), (0, END, 7, 32, end)]))
    sealed_one_by_one(store, sent)
    view = store.view(JOB)
    assert view
    process = view.steps["steps_process"]
    assert (process["cpu_ns.end"] - process["cpu_ns.begin"]).tolist() == [(end - begin) // 2]


def test_facts_are_kept_and_the_newest_holds(store: Store) -> None:
    sent = training(WORKERS[:1], batches=3)
    for at, fact in enumerate(("setting.X=1", "setting.X=2=3", "no fact")):
        sent[at].events.add(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=sent[at].begin_ns, text=fact)
    A.greet(store)
    for one in sent:
        A.put(store, one)
        store.seal()
    view = store.view(JOB)
    assert view
    assert list(view.facts.values()) == [{"setting.X": "2=3"}]


def test_chief_that_marks_late_gives_the_workers_steps_back(store: Store) -> None:
    chief = [rank(), rank(role="chief", pid=101)]
    sealed_one_by_one(
        store,
        marks_only(
            [
                [
                    (r, k, i, 1, (100 + 20 * i + 2 + k) * S)
                    for r in (0, 1)
                    for k in (BEGIN, END)
                    if r == 0 or i >= 4
                ]
                for i in range(8)
            ],
            chief,
        ),
    )


def test_parameter_server_known_later_has_the_same_rows_as_at_once(store: Store) -> None:
    early = training(WORKERS[:1], batches=4)
    later = training([*WORKERS[:1], rank(role="ps", pid=201)], batches=8)[4:]
    sealed_one_by_one(store, early + later)


def test_metrics_whose_names_differ_in_case_only_outlive_sealing(store: Store) -> None:
    metrics = [("x", GAUGE, False), ("X", GAUGE, False)]
    sent = training(WORKERS[:1], batches=2)
    for one in sent:
        one.counter_sets.append(counter_set("odd", metrics))
        one.samples.append(samples(2, [(0, one.begin_ns, (1, 2)), (0, one.end_ns, (1, 2))], metrics))
    sealed_one_by_one(store, sent)


def test_one_bad_name_does_not_stop_sealing_of_other_jobs(store: Store) -> None:
    greet(store)
    spoiled = training([rank("other")], batches=1)[0]
    spoiled.counter_sets[0].name = "x" * 256
    with pytest.raises(BadBatch, match="x" * 40):
        B.put(store, spoiled)
    A.put(store, *OF_A)
    store.seal()
    assert segments(store)


def test_exchange_that_overflows_the_clock_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    try:
        A.put(store, *OF_A)
        with contextlib.suppress(Exception):
            store.add_clock_sample(A.number(store), ClockSample(5, 2**63 + 5, 10))
        assert store.view(JOB)
        store.seal()
    finally:
        crash(store)


def test_values_at_the_edge_of_their_type_survive(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    one = training(WORKERS[:1], batches=1)[0]
    one.samples[1].columns[0] = packed([2**63 - 1, -(2**63), 0, 1, 2])
    A.put(store, one)
    store.close()
    again = open_store(tmp_path)
    raw = Reader(tmp_path).read(segments(again, "samples_tcp"))
    assert raw["tcp_sent_bytes"].tolist() == [2**63 - 1, -(2**63), 0, 1, 2]
    again.close()


# -- many at once ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_views_are_whole_while_batches_come_and_are_sealed(store: Store) -> None:
    greet(store)
    of_a = training(WORKERS, stepping=(0, 1), batches=60, batch_ns=400 * MS, sample_ns=200 * MS)
    of_b = training(OTHERS, first_ns=23 * S, batches=60, batch_ns=400 * MS, sample_ns=200 * MS)
    sent = [pair for one, other in zip(of_a, of_b, strict=True) for pair in ((A, one), (B, other))]
    for node, one in sent[:6]:
        node.put(store, one)
    done = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)
                done.set()

        return run

    sealings = [0]

    def write() -> None:
        for at in range(6, len(sent), 6):
            for node, one in sent[at : at + 6]:
                node.put(store, one)
            # Less than LATE_ROWS_NS of data comes during one sealing, as from agents that are not behind.
            before = sealings[0]
            wait_for(lambda before=before: sealings[0] > before + 1 or failures, "two sealings")  # type: ignore[misc]
        done.set()

    def seal() -> None:
        while not done.is_set():
            store.seal()
            sealings[0] += 1

    seen: list[int] = []

    def look() -> None:
        while not done.is_set():
            view = store.view(JOB)
            assert view
            found = view.steps["steps"]
            keys = [found[n].tolist() for n in ("rank", "window", "step")]
            each = list(zip(*keys, strict=True))
            assert len(each) == len(set(each))
            seen.append(len(each))

    threads = [threading.Thread(target=guarded(work)) for work in (write, seal, look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    done.set()
    assert failures == []
    assert seen == sorted(seen)
    assert steps(store) == all_at_once(store, sent)
    assert sealings[0] > 10


def test_node_that_says_hello_during_a_view_does_no_harm(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    A.greet(store)
    A.put(store, *OF_A)
    real = ClockRegistry.clocks

    def clocks(registry: ClockRegistry) -> Any:
        found = real(registry)
        B.greet(store)
        B.put(store, *OF_B)
        return found

    monkeypatch.setattr(ClockRegistry, "clocks", clocks)
    assert store.view(JOB)


def test_batches_that_come_during_a_sealing_are_seen_after_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet(store)
    A.put(store, *OF_A[:2])
    real = Deltas.job_tables
    pending = [OF_A[2:]]

    def job_tables(*given: Any) -> Any:
        if pending:
            A.put(store, *pending.pop())  # an agent sends its spool after a reconnect
        return real(*given)

    with monkeypatch.context() as patched:
        patched.setattr(Deltas, "job_tables", job_tables)
        store.seal()
    assert not pending
    assert steps(store) == all_at_once(store, [(A, one) for one in OF_A])


def test_decoder_of_the_store_is_the_one_of_ingest(store: Store) -> None:
    entry = A.entry(store, OF_A[0])
    assert decode_entry(entry, store.name_ids).sequence == 1


def test_job_that_cannot_be_understood_keeps_no_other_from_being_sealed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet(store)
    A.put(store, *OF_A)
    B.put(store, *training([rank("other")]))
    real = Deltas.new_steps

    def new_steps(deltas: Deltas, job: str, *more: Any) -> Any:
        if job == JOB:
            raise ValueError("odd data")
        return real(deltas, job, *more)

    with monkeypatch.context() as patched:
        patched.setattr(Deltas, "new_steps", new_steps)
        assert store.seal() == 2 * len(OF_A)
    assert not segments(store, "steps")
    assert segments(store, "steps", "other")
    view = store.view(JOB)  # understood again, it is all there
    assert view
    assert len(view.steps["steps"]["step"]) == 2 * 57


def test_names_of_spans_of_a_job_are_bounded(store: Store) -> None:
    for job in ("a", "b"):
        assert [store.name_ids.allows(job, f"phase.n{i}") for i in range(300)] == [
            i < 256 for i in range(300)
        ]
        assert store.name_ids.allows(job, "phase.n7")


def test_step_deltas_wait_until_as_much_is_new_as_is_read_again(store: Store) -> None:
    A.greet(store)
    sent = training(WORKERS[:1], batches=30, batch_ns=S)
    A.put(store, *sent[:20])
    store.seal()
    stored = [stored_through(store)]
    for one in sent[20:]:
        A.put(store, one)
        store.seal()
        stored.append(stored_through(store))
    # Batches of a second, a margin of five: at every fifth sealing.
    assert [int(after > before) for before, after in pairwise(stored)] == [0, 0, 0, 0, 1] * 2
    assert steps(store) == all_at_once(store, [(A, one) for one in sent])


def test_one_copy_of_the_catalog_is_made_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sealing and a removal each keep one, under the same name."""
    store = open_store(tmp_path)
    under_way, most = [], []
    real = Catalog.copy

    def copy(catalog: Catalog, target: Path) -> bool:
        under_way.append(1)
        most.append(len(under_way))
        try:
            return real(catalog, target)
        finally:
            under_way.pop()

    monkeypatch.setattr(Catalog, "copy", copy)
    threads = [threading.Thread(target=store._sealer.keep_copy, kwargs={"always": True}) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert most == [1] * 8
    store.close()
