"""Two runs side by side: real changes are seen, equal runs are within noise, and nothing is made up."""

from __future__ import annotations

import numpy as np
import pytest
from roofline.answers.values import Provenance
from roofline_server.model.account.account import Account
from roofline_server.model.account.comparison import (
    StepsOfRanks,
    comparable_parts,
    difference,
    part_times,
    ratio,
    step_times,
)
from roofline_server.model.barrier import Grid


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


def of_ranks(*accounts: Account, at: np.ndarray | None = None) -> StepsOfRanks:
    """at: which step of each rank a step of the job is, of ranks that do them together."""
    end_ns = [np.round(1e9 * one.duration.cumsum()).astype(np.int64) for one in accounts]
    grid = None if at is None else Grid(at[:, 0], at[:, 0], at[:, 0], at)
    return StepsOfRanks(accounts, end_ns, grid)


def test_times_of_a_job_are_means_over_the_ranks_that_took_part_in_a_step() -> None:
    """The second rank joins in the third step."""
    one = account(input=np.full(5, 0.01), compute=np.array([0.01, 0.01, 0.04, 0.04, 0.04]))
    job = of_ranks(
        one, account(compute=np.full(3, 0.05)), at=np.array([[k, k - 2] for k in range(5)]).clip(-1)
    )
    assert list(step_times(job)) == pytest.approx([0.02, 0.02, 0.05, 0.05, 0.05])
    parts = part_times(job)
    assert list(parts) == ["input", "compute"]
    assert list(parts["input"]) == pytest.approx([0.01, 0.01, 0.005, 0.005, 0.005])


def test_a_slow_worker_counts_with_as_many_steps_as_it_has() -> None:
    """Three workers at 20 ms and one at 100 ms: 160 steps in a second, none of which is cut off."""
    usual = [account(input=np.full(500, 0.001), compute=steps(0.019, seed, 500)) for seed in range(3)]
    slow = account(input=np.full(100, 0.001), compute=steps(0.099, 4, 100))
    found = step_times(of_ranks(*usual, slow))
    assert len(found) == 1600 and found.mean() == pytest.approx(0.025, rel=0.01)
    parts = part_times(of_ranks(*usual, slow))
    assert sum(parts.values()) == pytest.approx(found)
    assert parts["input"] == pytest.approx(0.001)
    equal = [account(compute=steps(0.020, seed, 500)) for seed in range(5, 9)]
    longer = ratio(step_times(of_ranks(*equal)), found)
    assert longer.low is not None and longer.high is not None
    assert 1.24 < longer.low < 1.25 < longer.high < 1.26, "how far ranks differ is no chance"
    assert len(step_times(of_ranks())) == 0


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
