from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from roofline.v1 import ingest_pb2 as pb
from roofline_server.errors import BadBatch
from roofline_server.ingest.service import decode_entry
from roofline_server.records import rows
from roofline_server.store.catalog import name_ids
from roofline_server.store.steps.deltas import Deltas
from roofline_server.store.steps.sealed import SILENT_NS
from roofline_server.store.store import Store

from ..builders import UNIX, S, batch, catalog_of, rank, training
from .histories import (
    ALL,
    JOB,
    OF_A,
    OF_B,
    QUICK,
    WORKERS,
    A,
    B,
    all_at_once,
    alternating,
    files,
    greet,
    known_files,
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
