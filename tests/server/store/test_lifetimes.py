"""Processes and when they were there, and nodes whose clocks are not known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from roofline.v1 import ingest_pb2 as pb
from roofline_server.store.store import Store

from ..builders import UNIX, S, batch, open_store, rank, training
from .histories import JOB, OF_A, WORKERS, A, greet, steps


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
