from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from roofline_server.model.steady import MOST_WARM_UP, Steady, steady_of_each, warm_up
from roofline_server.records import Bools, Floats


def steps(count: int, seed: int = 1, usual: float = 0.1) -> Floats:
    return usual + np.abs(np.random.default_rng(seed).normal(0, 0.002, count))


def steady(duration: Floats, apart: Bools | None = None, traced: Bools | None = None) -> Steady:
    """Of one rank."""
    return steady_of_each([duration], [apart], [traced])[0]


def test_first_step_is_always_left_out() -> None:
    found = steady(steps(100))
    assert not found.which[0]
    assert found.which[1:].all()
    (left,) = found.left_out
    assert (left.reason, left.steps) == ("warm-up", 1)


def test_slow_first_steps_are_left_out_and_counted() -> None:
    duration = steps(100)
    duration[:8] = [2.0, 0.5, 0.4, 0.3, 0.25, 0.2, 0.2, 0.2]
    found = steady(duration)
    assert list(np.flatnonzero(~found.which)) == list(range(8))
    (left,) = found.left_out
    assert left.steps == 8
    assert left.seconds == pytest.approx(4.05)


def test_change_of_load_is_no_warm_up() -> None:
    duration = steps(100)
    duration[:60] *= 2
    assert warm_up(duration) == 20


def test_first_steps_that_are_faster_are_no_warm_up() -> None:
    duration = steps(100)
    duration[:10] *= 0.5
    assert warm_up(duration) == 1


def test_step_after_a_break_is_left_out_where_it_is_longer() -> None:
    duration = steps(60)
    apart = np.zeros(60, np.bool_)
    apart[[0, 20, 40]] = True
    duration[20] = 0.5
    found = steady(duration, apart)
    assert not found.which[20]
    assert found.which[40] == (duration[40] <= duration[30:].max())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 6])
def test_few_steps(count: int) -> None:
    found = steady(steps(count))
    assert found.which.sum() == max(0, count - 1) if count > 1 else found.which.sum() == count


@given(arrays(np.float64, st.integers(0, 80), elements=st.floats(1e-4, 10)))
@pytest.mark.law
def test_never_leaves_out_more_than_a_fifth_as_warm_up(duration: Floats) -> None:
    found = steady(duration)
    assert (~found.which).sum() <= max(1, MOST_WARM_UP * len(duration))
    assert sum(left.steps for left in found.left_out) == (~found.which).sum()
    assert sum(left.seconds for left in found.left_out) == pytest.approx(float(duration[~found.which].sum()))


def test_traced_steps_are_left_out_and_named_before_anything_else() -> None:
    duration = steps(100)
    traced = np.isin(np.arange(100), [0, 50, 51])
    duration[50:52] = 0.9
    found = steady(duration, None, traced)
    assert list(np.flatnonzero(~found.which)) == [0, 50, 51]
    (left,) = found.left_out
    assert (left.reason, left.steps) == ("traced", 3), "step 0 counts under its first reason only"
    assert left.seconds == pytest.approx(1.9, abs=0.01)
