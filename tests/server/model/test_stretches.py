"""Step times and lateness in few numbers."""

from __future__ import annotations

import numpy as np
import pytest
from roofline_server.model import stretches as model
from roofline_server.model.stretches import StepTimes


def times(own: np.ndarray, duration: float = 1.0) -> StepTimes:
    """own: (steps, ranks); NaN: the rank did not take the step."""
    step, rank = np.nonzero(~np.isnan(own))
    return StepTimes(step, rank, np.full(len(step), duration), own[step, rank])


def looked(own: np.ndarray, most: int, lines: list[int], groups: list[int], shown: slice | None = None):  # type: ignore[no-untyped-def]
    found = times(own)
    cut = model.stretches(found.step, most)
    return cut, *model.look(found, cut, own.shape[1], shown or slice(0, own.shape[1]), lines, groups)


def test_stretches_cover_all_steps_once() -> None:
    cut = model.stretches(np.array([3, 3, 5, 6, 9, 12]), 2)
    assert list(zip(cut.first.tolist(), cut.last.tolist(), strict=True)) == [(3, 5), (6, 12)]
    assert model.stretches(np.zeros(0, np.int64), 5).first.tolist() == []


def test_lateness_is_relative_to_the_median_rank_of_the_same_step() -> None:
    own = np.array([[1.0, 1.0, 1.5], [2.0, 2.0, 2.0]])
    _, _, late, mean = looked(own, 10, [0, 1, 2], [0, 1, 2])
    assert late.tolist() == [[0, 0, 0.5], [0, 0, 0]]
    assert mean.tolist() == [0, 0, 0.25]


def test_a_late_moment_of_one_rank_outlives_stretches_and_groups() -> None:
    own = np.ones((1000, 40))
    own[777, 33] = 5.0
    cut, _, late, mean = looked(own, 10, [0], [0, 20])
    assert late.shape == (10, 2) and late[7, 1] == 4.0 and np.count_nonzero(late) == 1
    assert cut.first[7] <= 777 <= cut.last[7] and mean.argmax() == 33


def test_ranks_that_are_shown_are_held_against_all() -> None:
    own = np.array([[1.0, 1.0, 1.0, 9.0, 9.0]])
    _, extremes, late, _ = looked(own, 1, [0], [0, 1], slice(3, 5))
    assert late.tolist() == [[8.0, 8.0]] and extremes.longest.shape == (1, 1)


def test_a_step_that_a_rank_lacks_is_absent_and_spoils_no_other() -> None:
    own = np.array([[1.0, np.nan], [1.0, 3.0]])
    _, extremes, late, mean = looked(own, 2, [0, 1], [0, 1])
    assert np.isnan(late[0, 1]) and late[0, 0] == 0 and late[1].tolist() == [-1, 1]
    assert np.isnan(extremes.longest[0, 1]) and mean.tolist() == [-0.5, 1]


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    own = np.random.default_rng(1).random((500, 7))
    whole = looked(own, 33, [0, 3], [0, 1, 5])
    monkeypatch.setattr(model, "BLOCK_CELLS", 100)
    parts = looked(own, 33, [0, 3], [0, 1, 5])
    for one, other in zip(whole[1], parts[1], strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(whole[2], parts[2]) and np.allclose(whole[3], parts[3])


def test_step_times_keep_the_shortest_and_the_longest() -> None:
    found = StepTimes(np.arange(100), np.zeros(100, np.int64), np.ones(100), np.ones(100))
    found.duration[41], found.duration[42] = 7.0, 0.1
    extremes, _, _ = model.look(found, model.stretches(found.step, 4), 1, slice(0, 1), [0], [0])
    assert extremes.longest[1, 0] == 7.0 and extremes.shortest[1, 0] == 0.1
    assert extremes.middle[0, 0] == 1.0
