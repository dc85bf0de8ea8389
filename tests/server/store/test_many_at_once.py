"""Batches, sealings and views at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from roofline_server.store.catalog.catalog import Catalog
from roofline_server.store.catalog.clocks import ClockRegistry
from roofline_server.store.steps.deltas import Deltas
from roofline_server.store.store import Store

from tests.fakes import wait_for

from ..builders import MS, S, open_store, training
from .histories import JOB, OF_A, OF_B, OTHERS, WORKERS, A, B, all_at_once, greet, steps, stored_through


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
