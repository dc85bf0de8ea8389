"""What the slowdown's benchmark makes of what it measured."""

from __future__ import annotations

import pytest

from .slowdown import interval, last, turns, verdict


def test_a_chunk_with_a_stop_in_it_parts_two_turns() -> None:
    assert turns([0.1, 0.1, 1.7, 0.2, 3.1, 0.3], 1.5) == [[0.1, 0.1], [0.2], [0.3]]


def test_turns_are_told_from_the_end() -> None:
    assert last([[9.0], [1.0], [2.0]], 2) == [[1.0], [2.0]]
    assert last([[2.0]], 2) == [[], [2.0]]


def test_interval_of_ratios_that_differ_by_much_is_wide() -> None:
    calm = interval([0.004, 0.005, 0.006] * 20)
    noisy = interval([at / 100 for at in range(-20, 22)])
    assert (calm[0], noisy[0]) == (0.005, 0.005)
    assert 0 < calm[1] <= 0.005 <= calm[2] < 0.01
    assert noisy[1] < -0.03 < 0.03 < noisy[2]


@pytest.mark.parametrize(
    ("low", "median", "high", "said"),
    [
        (-0.002, 0.004, 0.009, "settled under 1%"),
        (0.012, 0.02, 0.03, "settled over 1%: +2.0%"),
        (-0.01, 0.004, 0.02, "not settled"),
    ],
)
def test_what_is_said_follows_the_interval(low: float, median: float, high: float, said: str) -> None:
    assert verdict(low, median, high) == said
