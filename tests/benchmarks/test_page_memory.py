"""The slope of a memory over time, on made-up samples."""

from __future__ import annotations

import random

import pytest

from .page_memory import by_minute, slope


def noisy(per_second: float, seed: int = 1) -> list[tuple[float, float]]:
    chance = random.Random(seed)
    return [(60.0 * minute, 1e8 + per_second * 60 * minute + chance.gauss(0, 1e5)) for minute in range(20)]


def test_memory_that_grows_has_a_slope_in_its_interval() -> None:
    found = slope(noisy(2000.0))
    assert found.low < 2000 < found.high and found.low > 1500 and found.high < 2500


def test_interval_of_memory_that_only_varies_holds_nothing() -> None:
    inside = [slope(noisy(0.0, seed)) for seed in range(200)]
    assert sum(one.low <= 0 <= one.high for one in inside) >= 180, "nine in ten at least"


def test_one_leap_is_no_slope() -> None:
    samples = [(60.0 * minute, 1e8 + (1e9 if minute == 7 else 0.0)) for minute in range(20)]
    assert slope(samples).middle == 0


def test_samples_of_a_minute_are_one_point() -> None:
    assert by_minute([(0, 1), (20, 5), (40, 2), (60, 7)]) == [(20, 2), (60, 7)]


def test_two_points_say_nothing() -> None:
    with pytest.raises(ValueError, match="three"):
        slope([(0, 1), (60, 2)])
