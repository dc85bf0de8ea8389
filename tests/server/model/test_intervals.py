from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.model.intervals import (
    block_length,
    correlation_time,
    interval,
    mean_and_error,
    of_another_run,
    of_changed_run,
    student,
)


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    # Abramowitz and Stegun, table 26.10.
    [
        (0.95, 1, 6.314),
        (0.975, 2, 4.303),
        (0.995, 3, 5.841),
        (0.9995, 3, 12.924),
        (0.975, 4, 2.776),
        (0.995, 10, 3.169),
        (0.9995, 9, 4.781),
        (0.975, 60, 2.000),
        (0.9995, 60, 3.460),
        (0.9995, 120, 3.373),
        (0.5, 7, 0.0),
        (0.025, 4, -2.776),
    ],
)
def test_student_has_the_quantiles_of_the_tables(probability: float, freedom: int, quantile: float) -> None:
    assert student(probability, freedom) == pytest.approx(quantile, abs=1.1e-3)


@pytest.mark.law
@given(st.floats(0.6, 0.99999), st.integers(3, 200))
def test_student_is_above_normal_and_falls_with_freedom(probability: float, freedom: int) -> None:
    assert student(probability, freedom) >= student(probability, freedom + 1) - 1e-6


def test_error_of_independent_values_is_that_of_the_textbook() -> None:
    values = np.random.default_rng(1).normal(5, 2, 4000)
    mean, error, freedom = mean_and_error(values)
    assert mean == pytest.approx(5, abs=0.1)
    assert error == pytest.approx(2 / np.sqrt(4000), rel=0.25)
    assert freedom == 4000 // 64 - 1


@pytest.mark.parametrize("begins", [0.5, 0.3])
def test_what_sets_in_or_grows_is_no_chance(begins: float) -> None:
    draws = np.random.default_rng(3).normal(0, 3, 200)
    at = np.arange(200) / 200
    for fault in (np.where(at < begins, 0.0, 50.0), 50 * at):
        found = interval(fault + draws, 1e-4)
        assert found.mean == pytest.approx(float(fault.mean()), abs=1)
        assert found.surely > 0.9 * found.mean
        assert interval(fault[::-1] + draws, 1e-4).surely < 0, "over again by the end: it may be chance"


def test_values_that_stay_alike_are_less_sure() -> None:
    draws = np.random.default_rng(2).normal(0, 1, 4000)
    slow = np.zeros(4000)
    for at in range(1, 4000):
        slow[at] = 0.95 * slow[at - 1] + draws[at]
    assert correlation_time(slow) == pytest.approx((1 + 0.95) / (1 - 0.95), rel=0.4)
    assert block_length(slow) >= 2 * correlation_time(slow)
    # The mean of such a series has an error of sd x sqrt(time / n).
    _, error, _ = mean_and_error(slow)
    assert error == pytest.approx(float(slow.std()) * np.sqrt(39 / 4000), rel=0.4)


@pytest.mark.parametrize(("steps", "outside"), [(40, 40), (200, 30), (1000, 30)])
def test_nineteen_of_twenty_intervals_hold_the_mean(steps: int, outside: int) -> None:
    random = np.random.default_rng(3)
    missed = 0
    for _ in range(400):
        found = interval(random.exponential(1.0, steps))
        missed += not found.low <= 1.0 <= found.high
    assert missed <= outside


def test_too_few_values_say_nothing() -> None:
    found = interval(np.ones(7))
    assert found.mean == 1.0
    assert found.surely == -np.inf


def test_constant_values_are_sure() -> None:
    assert interval(np.full(100, 3.0)) == pytest.approx((3.0, 3.0, 3.0, 3.0))


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        # This run is sure: two runs differ by 5 ms all the same, and a gain of 40 by 12.
        (0.060, 0.060, (0.047, 0.073)),
        (0.048, 0.072, (0.060 - np.hypot(0.012, 0.013), 0.060 + np.hypot(0.012, 0.013))),
        (-np.inf, np.inf, (0.0, 0.1)),  # nothing is known but that fixing does not make steps longer
        (0.060, 0.079, (0.047, 0.060 + np.hypot(0.019, 0.013))),
    ],
)
def test_another_run_differs_besides_by_5_percent_of_a_step_and_30_of_the_gain(
    low: float, high: float, ends: tuple
) -> None:
    assert of_another_run(0.060, low, high, step=0.1) == pytest.approx(ends)


def test_a_run_with_a_change_may_be_longer() -> None:
    ends = (
        0.2 - np.hypot(0.01, 0.03),
        0.2 + np.hypot(0.01, 0.03),
    )  # 5 % of the longer step, 30 % of the change
    assert of_changed_run(0.2, 0.2, 0.2, step=0.1) == pytest.approx(ends)
