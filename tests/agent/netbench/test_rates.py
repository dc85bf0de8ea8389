"""Rates of what ends, and quantiles of repeats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.netbench.rates import medians, over, rates, spread

SECOND = 1_000_000_000


def test_an_even_pace_has_one_rate() -> None:
    ends = [list(range(0, SECOND, SECOND // 100))]
    assert rates(ends, 0) == pytest.approx([100.0] * 5)


def test_what_ended_in_the_warm_up_does_not_count() -> None:
    fast, slow = range(0, SECOND, SECOND // 1000), range(SECOND, 3 * SECOND, SECOND // 10)
    assert rates([[*fast, *slow]], SECOND) == pytest.approx([10.0] * 5)


def test_a_change_of_pace_is_in_the_windows() -> None:
    ends = [*range(0, SECOND, SECOND // 10), *range(SECOND, 2 * SECOND + 1, SECOND // 20)]
    assert rates([ends], 0, repeats=2) == pytest.approx([10.0, 20.0])


def test_workers_add_up_and_only_while_all_work() -> None:
    first, second = list(range(0, 2 * SECOND, SECOND // 10)), list(range(SECOND, 3 * SECOND, SECOND // 5))
    assert rates([first, second], 0) == pytest.approx([15.0] * 5)


def test_long_messages_are_not_rounded_to_windows() -> None:
    # Three messages of 0.3 s: no window of a fifth of that would hold a whole one.
    assert rates([[0, 3 * SECOND // 10, 6 * SECOND // 10]], 0) == pytest.approx([1 / 0.3] * 2)


@pytest.mark.parametrize("ends", [[], [[]], [[5]], [[1, 2], [7]], [[1, 2], [8, 9]]])
def test_too_few_ends_have_no_rate(ends: list[list[int]]) -> None:
    assert rates(ends, 0) == []


@given(st.lists(st.lists(st.integers(1, 10**8), min_size=2, max_size=30), min_size=1, max_size=3))
def test_windows_hold_all_that_ended_in_them(steps: list[list[int]]) -> None:
    """Of one worker the windows add up to its count; of several to no more than all their ends."""
    ends = [[sum(one[: at + 1]) for at in range(len(one))] for one in steps]
    found = rates(ends, 0)
    if not found:
        return
    seconds = (min(one[-1] for one in ends) - max(one[0] for one in ends)) / 1e9
    whole = sum(found) * seconds / len(found)
    assert all(rate > 0 for rate in found)
    assert whole <= sum(len(one) for one in ends) + 1e-6
    if len(ends) == 1:
        assert whole == pytest.approx(len(ends[0]) - 1)


def test_the_whole_counts_once_what_a_window_hands_to_the_next() -> None:
    found = over([(0.0, 0.5), (90.0, 0.5), (60.0, 1.0)])
    assert found == ([0.0, 180.0, 60.0], 75.0)


def test_medians_of_groups() -> None:
    assert medians([1, 2, 30, 4, 5, 6], repeats=2) == [2, 5]
    assert medians([3.0], repeats=5) == [3.0]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=20))
def test_quantiles_are_in_order_and_between_the_ends(values: list[float]) -> None:
    found = spread(values)
    between = [min(values), found.p5, found.p25, found.p50, found.p75, found.p95, max(values)]
    assert between == sorted(between) and found.count == len(values)


def test_median_of_an_even_number_lies_between() -> None:
    assert spread([1.0, 2.0, 3.0, 4.0]).p50 == 2.5
