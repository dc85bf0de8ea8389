from __future__ import annotations

from pathlib import Path

import pytest
from roofline_server.report.kernels.totals import Kernels, kernel_totals
from roofline_server.report.questions import ALL_STEPS, Steps
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ...builders import BEGIN, END, MS, Node, S, batch, calls, kernel, marks, open_store, rank, training


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Steps 0 to 57 of one worker, in each a call of 1 us, 1000 FLOP, 100 byte; a server without calls."""
    made, node = open_store(tmp_path), Node("a")
    node.greet(made)
    node.put(made, *training([rank(), rank(role="ps", pid=101)]))
    made.seal()
    return made


def view_of(store: Store) -> JobView:
    view = store.view("job")
    assert view is not None
    return view


def of(store: Store, steps: Steps = ALL_STEPS) -> Kernels:
    return kernel_totals(store, view_of(store), steps)


def worker(store: Store) -> int:
    return next(n for n, key in store.name_ids.ranks_of("job").items() if key.role == "worker")


def test_totals_are_of_the_steps_asked_for(store: Store) -> None:
    found = of(store, Steps(10, 19))
    assert found.steps[worker(store)] == 10
    assert [(t.rank, t.calls, t.flops, t.bytes) for t in found.totals] == [(worker(store), 10, 10_000, 1000)]


def test_totals_over_steps_are_what_a_step_has(store: Store) -> None:
    found = of(store)
    (only,) = found.totals
    assert only.calls == found.steps[worker(store)] > 50


def test_step_that_was_not_watched_does_not_count(tmp_path: Path) -> None:
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    sent = training([rank()])
    del sent[3].events[:]
    node.put(store, *sent)
    found, whole = of(store), of(store, Steps(0, 10))
    assert found.steps[worker(store)] == found.totals[0].calls == 49
    assert whole.steps[worker(store)] == 11
    assert found.outside > 0


def test_steps_that_are_not_there_have_no_kernels(store: Store) -> None:
    assert of(store, Steps(1000)) == Kernels([], {}, 0)


def test_rank_without_steps_has_all_its_calls_and_none_of_a_range(tmp_path: Path) -> None:
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    node.put(store, batch(ranks=[rank()], kernels=[kernel()], calls=calls([(0, 0, 10 * S, 50)] * 3)))
    assert [t.calls for t in of(store).totals] == [3]
    assert (of(store).steps, of(store, Steps(1)).totals) == ({}, [])


def test_only_the_ranks_asked_for(tmp_path: Path) -> None:
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    borders = [(r, kind, 1, 1, 10 * S + at * MS) for r in (0, 1) for kind, at in ((BEGIN, 0), (END, 9))]
    called = calls([(0, 0, 10 * S + MS, 50), (1, 0, 10 * S + MS, 60)])
    node.put(
        store,
        batch(ranks=[rank(), rank(index=1)], kernels=[kernel()], calls=called, marks=marks(borders)),
    )
    number = worker(store)
    assert [t.rank for t in kernel_totals(store, view_of(store), ranks=[number]).totals] == [number]
