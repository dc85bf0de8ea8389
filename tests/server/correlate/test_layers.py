"""Calls of traced steps by layer: what is each layer's adds up to the steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.correlate.layers import LayerTotals, by_layer, shared
from roofline_server.records import ABSENT, Table

NESTED, PLAIN = 1, 2
BEGIN, END = np.array([100, 200]), np.array([200, 350])


def calls(*found: tuple[str, int, int, int], kernel: int = PLAIN) -> Table:
    """found: (layer, time_ns, duration_ns, flops)."""
    count = len(found)
    columns: dict[str, Any] = {
        "kernel": [kernel] * count,
        "time_ns": [c[1] for c in found],
        "duration_ns": [c[2] for c in found],
        "flops": [c[3] for c in found],
        "bytes": [10 if c[3] > 0 else ABSENT for c in found],
        "precision": [1] * count,
    }
    made: Table = {name: np.array(values, np.int64) for name, values in columns.items()}
    return {**made, "layer": np.array([c[0] for c in found], object)}


def of(found: LayerTotals) -> dict[str, float]:
    return {one.layer: one.step_ns for one in found.layers}


def test_what_runs_alone_has_its_time_and_the_rest_of_the_steps_is_idle() -> None:
    found = by_layer(calls(("a", 110, 40, 5), ("b", 160, 20, 5), ("a", 210, 10, 5)), BEGIN, END, [NESTED])
    assert of(found) == {"a": 50, "b": 20}
    assert (found.steps, found.idle_ns) == (2, 180)


def test_calls_at_the_same_time_share_it() -> None:
    found = by_layer(calls(("a", 110, 40, 5), ("b", 130, 40, 5)), BEGIN, END, [NESTED])
    assert of(found) == {"a": 30, "b": 30}
    assert {one.layer: one.call_ns for one in found.layers} == {"a": 40, "b": 40}


def test_operators_that_call_others_do_not_share_their_own_time() -> None:
    outer_and_inner = calls(("a", 110, 20, ABSENT), ("b", 115, 40, 5), kernel=NESTED)
    assert of(by_layer(outer_and_inner, BEGIN, END, [NESTED])) == {"a": 20, "b": 40}


def test_operators_of_several_threads_have_no_more_than_the_step() -> None:
    found = by_layer(calls(("a", 100, 90, 5), ("b", 100, 90, 5), kernel=NESTED), BEGIN[:1], END[:1], [NESTED])
    assert of(found) == {"a": 50, "b": 50}
    assert found.idle_ns == 0


def test_work_of_a_layer() -> None:
    found = by_layer(calls(("a", 110, 10, 50), ("a", 120, 10, ABSENT), ("a", 130, 10, 0)), BEGIN, END, [])
    (a,) = found.layers
    assert (a.calls, a.flops, a.unknown, a.moved, a.sized_flops, a.unsized) == (3, 50, 1, 10, 50, 0)


def test_what_waits_has_the_time_in_which_nothing_else_runs() -> None:
    both = calls(("a", 110, 40, 5), ("(RecvTensor)", 100, 80, ABSENT))
    both["waiting"] = np.array([0, 1])
    assert of(by_layer(both, BEGIN, END, [])) == {"a": 40, "(RecvTensor)": 40}


def test_calls_outside_the_steps_are_passed_over() -> None:
    found = by_layer(calls(("a", 10, 20, 5), ("a", 400, 20, 5)), BEGIN, END, [])
    assert found == LayerTotals([], 2, 250)


stretch = st.tuples(st.integers(0, 60), st.integers(0, 30)).map(lambda one: (one[0], one[0] + one[1]))


@given(st.lists(stretch, min_size=1, max_size=12))
def test_shares_add_up_to_the_time_in_which_anything_goes_on(found: list[tuple[int, int]]) -> None:
    begin, end = (np.array(column, np.int64) for column in zip(*found, strict=True))
    waits = np.array([at % 3 == 2 for at in range(len(found))])
    shares = shared(begin, end, waits)
    assert shares.sum() == pytest.approx(covered(found))
    assert (shares <= (end - begin) + 1e-9).all()
    working = [one for one, waiting in zip(found, waits, strict=True) if not waiting]
    assert shares[~waits].sum() == pytest.approx(covered(working)), "what waits takes nothing from what works"


def covered(found: list[tuple[int, int]]) -> int:
    return len({moment for since, until in found for moment in range(since, until)})
