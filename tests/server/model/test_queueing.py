from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.model.queueing import (
    Bounds,
    cycle_then,
    predicted_rates,
    rate_if_all_queue,
    rate_if_none_queues,
    think_times,
)

some = st.floats(min_value=0.001, max_value=10)


@pytest.mark.parametrize(
    ("customers", "low", "high"),
    # Z = 15 s, D = 5 s, worked out by hand from the asymptotic bounds.
    [(1, 1 / 20, 1 / 20), (2, 2 / 25, 2 / 20), (4, 4 / 35, 1 / 5), (10, 10 / 65, 1 / 5)],
)
def test_asymptotic_bounds(customers: int, low: float, high: float) -> None:
    assert rate_if_all_queue(customers, 15, 5) == pytest.approx(low)
    assert rate_if_none_queues(customers, 15, 5) == pytest.approx(high)


def test_bounds_meet_the_saturation_point() -> None:
    """N* = (D + Z) / D is where the two upper asymptotes cross."""
    assert rate_if_none_queues((5 + 15) / 5, 15, 5) == pytest.approx(1 / 5)


def test_a_node_that_all_share_caps_the_rate() -> None:
    assert rate_if_none_queues(10, 0.1, 0.01) == pytest.approx(10 / 0.11)
    assert rate_if_none_queues(10, 0.1, 0.01, node=0.02) == pytest.approx(50)


@given(st.integers(1, 50), some, some)
def test_bounds_are_in_order(customers: int, think: float, demand: float) -> None:
    assert rate_if_all_queue(customers, think, demand) <= rate_if_none_queues(customers, think, demand) * (
        1 + 1e-9
    )


@given(st.integers(1, 20), some, some)
def test_both_bounds_give_the_rate_that_was_measured(customers: int, think: float, demand: float) -> None:
    for rate in (rate_if_all_queue(customers, think, demand), rate_if_none_queues(customers, think, demand)):
        low, high = predicted_rates(customers, rate, demand, customers, demand)
        assert low == pytest.approx(rate, rel=1e-6)
        assert high == pytest.approx(rate, rel=1e-6)


@given(st.integers(1, 20), some, some, st.integers(1, 40))
def test_a_prediction_is_a_range_and_holds_what_either_bound_would_do(
    customers: int, think: float, demand: float, then: int
) -> None:
    rate = rate_if_all_queue(customers, think, demand)
    low, high = predicted_rates(customers, rate, demand, then, demand)
    assert low <= rate_if_all_queue(then, think, demand) * (1 + 1e-9)
    assert low <= high


def test_think_time_is_never_negative() -> None:
    assert think_times(2, 10, 0.2) == Bounds(0, 0)
    assert think_times(2, 10, 0.05) == pytest.approx((0.1, 0.15))


def test_mending_saves_the_demand_of_all_who_queue() -> None:
    assert cycle_then(0.1, 2, 0.04, 0.01) == pytest.approx(0.04)
    assert cycle_then(0.1, 4, 0.04, 0.01) == pytest.approx(0.01)  # not below the demand itself
