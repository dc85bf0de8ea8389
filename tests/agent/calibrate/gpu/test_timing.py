"""How a rate is measured: enough units, repeats, best, median and spread; what takes too long is left out."""

from __future__ import annotations

import pytest
from roofline_agent.calibrate.gpu.bench.timing import (
    FULL,
    QUICK,
    TooLong,
    TooShort,
    fastest,
    measure_rate,
    shortest,
)

PLAN = FULL._replace(run_s=0.1, warm_s=0.0, repeats=3, longest_s=0.5)


def test_value_is_the_best_and_median_and_spread_stand_beside() -> None:
    rates = fastest([8.0, 10.0, 9.0], [1e9, None, 2e9])
    assert (rates.best, rates.median, rates.runs, rates.clock_hz) == (10.0, 9.0, 3, 1.5e9)
    assert rates.spread == pytest.approx(0.2)
    times = shortest([5.0, 4.0, 8.0])
    assert (times.best, times.median, times.spread, times.clock_hz) == (4.0, 5.0, 0.5, None)


@pytest.mark.parametrize("unit_s", [1e-6, 1e-3, 0.04, 0.3])
def test_runs_are_about_as_long_as_planned(unit_s: float) -> None:
    asked: list[int] = []

    def timed(units: int) -> tuple[float, float | None]:
        asked.append(units)
        return units * unit_s, 1e9

    measured = measure_rate(timed, 100.0, PLAN)
    assert measured.best == pytest.approx(100.0 / unit_s)
    assert (measured.runs, measured.clock_hz) == (3, 1e9)
    assert asked[-3:] == [max(1, round(0.1 / unit_s))] * 3


def test_warm_up_lasts_as_long_as_planned() -> None:
    clock = 0.0

    def timed(units: int) -> tuple[float, float | None]:
        nonlocal clock
        clock += units * 0.1
        return units * 0.1, None

    measure_rate(timed, 1.0, PLAN._replace(warm_s=2.0, repeats=1))
    assert clock >= 2.0 + 0.1


def test_first_call_alone_does_not_make_work_too_long() -> None:
    taken = iter([3.0, *[0.1] * 20])
    assert measure_rate(lambda units: (next(taken), None), 1.0, PLAN).best == pytest.approx(10.0)


def test_work_of_which_one_unit_is_too_long_is_refused() -> None:
    with pytest.raises(TooLong, match=r"0\.6 s"):
        measure_rate(lambda units: (0.6 * units, None), 1.0, PLAN)


def test_clock_that_does_not_move_ends_nevertheless() -> None:
    """A unit so small that no number of them can be timed."""
    with pytest.raises(TooShort):
        measure_rate(lambda units: (0.0, None), 1.0, QUICK)
