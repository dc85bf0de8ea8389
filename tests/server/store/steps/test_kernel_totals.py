from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from roofline_server.correlate.kernel_totals import KernelTotal
from roofline_server.correlate.stretch_index import Stretches
from roofline_server.records import Ints
from roofline_server.store.steps import kernel_totals
from roofline_server.store.store import Store

from ...builders import BORDER, MS, UNIX, Node, S, batch, calls, kernel, marks, open_store, rank, spans

BEGIN = 100 * S


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def sent(number: int, **more: object) -> object:
    """A second of two ranks: each calls kernel 0 ten times for 1 ms, rank 0 also kernel 1 once for 5 ms."""
    begin = BEGIN + number * S
    called = [(r, 0, begin + k * 100 * MS, MS) for r in (0, 1) for k in range(10)]
    return batch(
        number + 1,
        begin,
        begin + S,
        ranks=[rank(), rank(index=1, pid=101)],
        kernels=[kernel(), kernel(None, None, "bf16")],
        calls=calls([*called, (0, 1, begin + 50 * MS, 5 * MS)]),
        **more,
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two sealings and a tail."""
    made, node = open_store(tmp_path), Node("a")
    node.greet(made)
    for number in range(6):
        node.put(made, sent(number))
        if number in (1, 3):
            made.seal()
    return made


def totals(store: Store, stretches: Stretches, by_phase: bool = False) -> tuple[list[KernelTotal], int]:
    raw = store.raw("job")
    assert raw is not None
    return kernel_totals.totals(raw, stretches, by_phase)


def numbers(store: Store) -> list[int]:
    return sorted(store.name_ids.ranks_of("job"), key=lambda n: store.name_ids.ranks_of("job")[n].index)


def test_sealed_calls_and_the_tail_are_added_up(store: Store) -> None:
    first, second = numbers(store)
    found, outside = totals(store, {first: None, second: None})
    said = {(t.rank, t.kind.precision): (t.calls, t.time_ns, t.flops) for t in found}
    assert said == {
        (first, "f32"): (60, 60 * MS, 60_000),
        (first, "bf16"): (6, 30 * MS, None),
        (second, "f32"): (60, 60 * MS, 60_000),
    }
    assert outside == 0
    assert found[0].time.p50 == 0.001


def test_only_what_lies_in_the_stretches_is_added_up(store: Store) -> None:
    first, _ = numbers(store)
    begin = UNIX + BEGIN + 3 * S
    found, outside = totals(store, {first: (ints(begin), ints(begin + 2 * S))})
    assert {t.kind.precision: t.calls for t in found} == {"f32": 20, "bf16": 2}
    assert outside == 44


def test_pieces_however_small_give_the_same(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = totals(store, dict.fromkeys(numbers(store)))
    monkeypatch.setattr(kernel_totals, "PIECE_ROWS", 7)
    assert totals(store, dict.fromkeys(numbers(store))) == whole


def test_calls_are_told_apart_by_phase(tmp_path: Path) -> None:
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    halves = [(0, "phase.forward", 0, 500), (0, "phase.backward", 500, 1000)]
    told = spans([(r, name, BEGIN + b * MS, BEGIN + e * MS, 0, 1) for r, name, b, e in halves])
    node.put(store, sent(0, spans=told))
    store.seal()
    marked = marks([(1, BORDER, k, 1, BEGIN + k * S) for k in (1, 2)])
    node.put(store, sent(1, marks=marked))
    first, second = numbers(store)
    found, _ = totals(store, {first: None, second: None}, by_phase=True)
    said = {(t.rank, t.kind.precision, t.phase): t.calls for t in found}
    assert said == {
        (first, "f32", "forward"): 5,
        (first, "f32", "backward"): 5,
        (first, "f32", ""): 10,
        (first, "bf16", "forward"): 1,
        (first, "bf16", ""): 1,
        (second, "f32", ""): 20,
    }


def test_job_without_calls_has_no_totals(tmp_path: Path) -> None:
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    node.put(store, batch(1, ranks=[rank()]))
    assert totals(store, dict.fromkeys(numbers(store)), by_phase=True) == ([], 0)
