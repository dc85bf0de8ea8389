from __future__ import annotations

import pytest
from roofline_agent.calibrate.runs import (
    NORMAL,
    Rate,
    clock_of_fastest,
    describe_effort,
    repeat,
    run_seconds,
    summarize,
    units_for,
    within_limit,
)


def test_value_is_the_best_run_and_spread_the_way_down_to_the_worst() -> None:
    assert summarize([80.0, 100.0, 75.0]) == Rate(100.0, 80.0, 0.25, runs=3)


def test_equal_runs_have_no_spread() -> None:
    assert summarize([5.0, 5.0]).spread == 0.0


def test_quiet_runs_are_not_repeated() -> None:
    rates = iter([90.0, 100.0, 95.0])
    assert repeat(3, lambda: next(rates)) == Rate(100.0, 95.0, 0.1, runs=3)


def test_disturbed_runs_of_an_impatient_plan_are_left_at_that() -> None:
    rates = iter([50.0, 80.0, 60.0])
    assert repeat(3, lambda: next(rates), patient=False) == Rate(80.0, 60.0, 0.375, runs=3)


def test_clock_is_that_of_the_fastest_runs() -> None:
    slow = [(50.0, 3.5e9)] * 3  # taken away, then sped up again
    interrupted = (99.0, 0.3e9)
    assert clock_of_fastest([*slow, (100.0, 2.4e9), (98.0, 2.5e9), interrupted]) == 2.4e9
    assert clock_of_fastest([(1.0, 3e9)]) == 3e9
    assert clock_of_fastest([]) is None


def test_many_threads_run_longer_so_that_their_starts_do_not_count() -> None:
    assert run_seconds(NORMAL, range(2)) == NORMAL.run_s
    assert run_seconds(NORMAL, range(64)) == 4 * NORMAL.run_s


@pytest.mark.parametrize(("limit", "longer"), [(None, False), (2.0, False), (4.0, False), (1.5, True)])
def test_runs_outlast_the_periods_of_a_limit(limit: float | None, longer: bool) -> None:
    assert (within_limit(NORMAL, (0, 1), limit).run_s >= 0.3) == longer


def test_disturbed_runs_get_a_second_chance_and_count_all_the_same() -> None:
    rates = iter([50.0, 80.0, 60.0, 100.0, 99.0, 98.0])
    assert repeat(3, lambda: next(rates)) == Rate(100.0, 89.0, 0.5, runs=6)


@pytest.mark.parametrize("seconds_per_unit", [1e-9, 3e-5, 0.02, 0.09])
def test_units_fill_the_planned_time(seconds_per_unit: float) -> None:
    units = units_for(0.1, 1, lambda count: count * seconds_per_unit)
    assert units == pytest.approx(0.1 / seconds_per_unit, abs=0.5)


def test_unit_longer_than_a_run_is_done_once() -> None:
    assert units_for(0.1, 1, lambda count: count * 7.0) == 1


def test_warm_up_lasts_at_least_half_a_run() -> None:
    lasted = []

    def seconds(count: int) -> float:
        lasted.append(count * 1e-6)
        return lasted[-1]

    units_for(0.1, 1, seconds)
    assert lasted[-1] >= 0.05


def test_method_text_says_how_many_threads_and_runs() -> None:
    rate = Rate(1.0, 0.9, 0.3, runs=14)
    assert describe_effort((0, 1), NORMAL, rate).startswith(
        "2 threads, one on each CPU; best of 14 runs of about 0.03 s"
    )
    assert describe_effort((3,), NORMAL, rate).startswith("1 thread on 1 CPU; ")
