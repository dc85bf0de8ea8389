"""Two runs side by side: real changes are seen, equal runs are within noise, and nothing is made up."""

from __future__ import annotations

import numpy as np
import pytest
from roofline.answers.values import Provenance
from roofline_server.model.account.account import Account
from roofline_server.model.account.comparison import (
    comparable_parts,
    difference,
    part_times,
    ratio,
    step_times,
)


def steps(mean: float, seed: int, count: int = 200, spread: float = 0.05) -> np.ndarray:
    return mean * (1 + spread * np.random.default_rng(seed).standard_normal(count))


def account(**parts: np.ndarray) -> Account:
    whole = np.sum(list(parts.values()), axis=0)
    return Account("w:0", "w", "n1", whole, dict(parts), dict.fromkeys(parts, Provenance.MEASURED), None)


def test_longer_steps_are_a_ratio_with_an_interval_that_holds_it() -> None:
    found = ratio(steps(0.1, 1), steps(0.15, 2))
    assert found.low is not None and found.high is not None
    assert found.low < 1.5 < found.high and found.high / found.low < 1.05 and not found.within_noise


def test_a_rate_is_the_other_way_round() -> None:
    forth, back = ratio(steps(0.1, 1), steps(0.15, 2)), ratio(steps(0.1, 1), steps(0.15, 2), inverse=True)
    assert forth.low is not None and forth.high is not None
    assert back.change == pytest.approx(1 / forth.change)
    assert (back.low, back.high) == (pytest.approx(1 / forth.high), pytest.approx(1 / forth.low))


def test_equal_runs_are_within_noise_19_times_in_20() -> None:
    noise = [difference(steps(0.1, seed), steps(0.1, 1000 + seed)).within_noise for seed in range(300)]
    assert 0.9 <= np.mean(noise) <= 0.99


def test_drift_widens_the_interval() -> None:
    """Steps next to each other that are alike count for less than as many that are not."""
    wave = np.repeat(np.random.default_rng(3).standard_normal(20), 10) * 0.01
    alone, alike = (
        difference(steps(0.1, 1), steps(0.1, 2)),
        difference(steps(0.1, 1) + wave, steps(0.1, 2) + wave),
    )
    assert (
        alone.high is not None and alone.low is not None and alike.high is not None and alike.low is not None
    )
    assert alike.high - alike.low > 2 * (alone.high - alone.low)


@pytest.mark.parametrize("count", [0, 3])
def test_too_few_steps_have_no_interval(count: int) -> None:
    found = difference(steps(0.1, 1), steps(0.2, 2, count))
    assert found.low is None and found.high is None and found.within_noise


def test_times_of_a_job_are_means_over_its_ranks_of_the_steps_that_all_have() -> None:
    one, other = account(input=np.full(5, 0.01), compute=np.full(5, 0.04)), account(compute=np.full(3, 0.03))
    assert list(step_times([one, other])) == pytest.approx([0.04] * 3)
    parts = part_times([one, other])
    assert list(parts) == ["input", "compute"] and list(parts["input"]) == pytest.approx([0.005] * 3)


def test_a_rank_that_was_hardly_there_does_not_cut_the_others_short() -> None:
    some = [account(compute=np.full(count, 0.04)) for count in (100, 90, 5)]
    assert len(step_times(some)) == 90


def test_parts_that_one_job_cannot_tell_apart_are_compared_as_one() -> None:
    column = np.ones(3)
    first = {"input": column, "host": 2 * column, "compute": column}
    second = {"input|host": 5 * column, "compute": column, "gc": column}
    one, other, sums = comparable_parts(first, second)
    assert sums == ["input|host"]
    assert {name: list(of) for name, of in one.items()} == {"compute": [1] * 3, "input|host": [3] * 3}
    assert {name: list(of) for name, of in other.items()} == {
        "compute": [1] * 3,
        "gc": [1] * 3,
        "input|host": [5] * 3,
    }


def test_parts_that_hang_together_by_a_third_are_one() -> None:
    column = np.ones(3)
    first, second = {"input": column, "compute|host": column}, {"input|host": column, "compute": column}
    assert comparable_parts(first, second)[2] == ["input|compute|host"]


def test_parts_that_both_jobs_tell_apart_alike_stay_as_they_are() -> None:
    column = np.ones(3)
    alike = {"compute": column, "compute|host": column}
    assert comparable_parts(alike, alike) == (alike, alike, [])


def test_part_that_a_job_may_have_had_unexplained_is_no_zero_of_it() -> None:
    column = np.ones(3)
    watched, marked = {"input": column, "compute": 4 * column, "gc": column}, {"other": 6 * column}
    one, other, sums = comparable_parts(watched, marked)
    assert sums == ["input|compute|gc|other"]
    assert {name: list(of) for name, of in one.items()} == {sums[0]: [6] * 3}
    assert {name: list(of) for name, of in other.items()} == {sums[0]: [6] * 3}


def test_hardly_any_unexplained_time_hides_no_part() -> None:
    column = np.ones(3)
    first, second = {"compute": column, "gc": column}, {"compute": column, "other": 0.05 * column}
    assert comparable_parts(first, second) == (first, second, [])
    second["input"] = column
    assert comparable_parts(first | {"other": column}, second)[2] == ["input|other"]
