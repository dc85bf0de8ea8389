from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.correlate.sampling import ESTIMATED, LIKE, RECORDED, SampledSteps
from roofline_server.records import ABSENT, Ints


def column(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)


def sampled(
    recorded: Sequence[int], flops: Sequence[int], like: Sequence[int], examples: Sequence[int] | None = None
) -> SampledSteps:
    known = column(examples if examples is not None else [ABSENT] * len(flops))
    return SampledSteps(np.array(recorded, bool), column(like), known, [column(flops)])


def filled(
    recorded: Sequence[int], flops: Sequence[int], like: Sequence[int], examples: Sequence[int] | None = None
) -> tuple[list[int], list[int]]:
    steps = sampled(recorded, flops, like, examples)
    return steps.filled(column(flops)).tolist(), steps.origin.tolist()


def test_step_that_was_not_recorded_did_what_its_like_did() -> None:
    assert filled([1, 0, 1, 0, 0], [10, 0, 30, 0, 0], [1, 1, 2, 2, 1]) == (
        [10, 10, 30, 30, 10],
        [RECORDED, LIKE, RECORDED, LIKE, LIKE],
    )


def test_recorded_steps_stay_as_they_are() -> None:
    assert filled([1, 1, 1], [10, 20, 30], [1, 1, 2]) == ([10, 20, 30], [RECORDED] * 3)


def test_of_steps_that_agree_to_a_percent_the_median_counts() -> None:
    assert filled([1, 1, 1, 0], [1000, 1010, 1009, 0], [1] * 4) == ([1000, 1010, 1009, 1009], [1, 1, 1, LIKE])


def test_steps_that_do_not_agree_give_an_estimate() -> None:
    assert filled([1, 1, 0], [1000, 1100, 0], [1] * 3) == ([1000, 1100, 1050], [1, 1, ESTIMATED])


def test_number_that_was_never_recorded_is_estimated_by_its_examples() -> None:
    found = filled([1, 1, 0, 0], [640, 320, 0, 0], [1, 2, 3, 4], [64, 32, 16, ABSENT])
    assert found == ([640, 320, 160, 480], [1, 1, ESTIMATED, ESTIMATED])


def test_rank_without_numbers_is_filled_where_its_steps_agree() -> None:
    assert filled([1, 0, 1], [10, 0, 10], [0] * 3) == ([10, 10, 10], [1, LIKE, 1])
    assert filled([1, 0, 1], [10, 0, 30], [0] * 3) == ([10, 20, 30], [1, ESTIMATED, 1])


def test_step_of_which_nothing_is_known_is_an_estimate_among_numbered_ones() -> None:
    assert filled([1, 0, 1], [10, 0, 10], [1, 0, 1])[1] == [RECORDED, ESTIMATED, RECORDED]
    assert filled([1, 0, 1], [10, 0, 10], [0, 0, 1])[1] == [RECORDED, ESTIMATED, RECORDED]


def test_steps_that_did_nothing_are_alike() -> None:
    assert filled([1, 0], [0, 0], [1, 1]) == ([0, 0], [RECORDED, LIKE])


def test_what_part_of_a_step_was_seen_does_not_count() -> None:
    assert filled([1, 0], [10, 3], [1, 1])[0] == [10, 10]


def test_times_are_means_and_absent_is_nothing() -> None:
    steps = sampled([1, 1, 1, 0], [5] * 4, [1] * 4)
    assert steps.filled(column([1, 2, 9, 0]), mean=True).tolist() == [1, 2, 9, 4]
    assert steps.filled(column([ABSENT, ABSENT, 6, ABSENT])).tolist() == [0, 0, 6, 0]


def test_weights_say_how_many_steps_each_like_stands_for() -> None:
    steps = sampled([1, 0, 0, 1, 0, 1], [10, 0, 0, 30, 0, 30], [1, 1, 1, 2, 2, 2])
    assert steps.weights(np.ones(6, bool)).tolist() == [3, 0, 0, 1.5, 0, 1.5]
    # Of steps 1 and 4 alone: the recorded ones only stand for them.
    assert steps.weights(np.array([0, 1, 0, 0, 1, 0], bool)).tolist() == [1, 0, 0, 0.5, 0, 0.5]


STEPS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from([ABSENT, 8, 16, 32])), min_size=1, max_size=40
)


@given(STEPS)
def test_weighted_sums_are_the_sums_of_filled_steps(steps: list[tuple[bool, int, int]]) -> None:
    """Whatever is alike or estimated: recorded calls times their weights add up to what the steps show."""
    recorded = np.array([True, *(step[0] for step in steps[1:])])
    like, examples = column([s[1] for s in steps]), column([s[2] for s in steps])
    # As steps of one number do: 1000 FLOP for each number; with it the examples make no difference.
    flops = np.where(recorded, 1000 * (like + 1), 0)
    found = SampledSteps(recorded, like, examples, [flops])
    wanted = np.ones(len(steps), bool)
    assert found.weights(wanted) @ flops == pytest.approx(found.filled(flops).sum(), rel=1e-3)
    assert found.weights(wanted)[~recorded].sum() == 0
    part = np.arange(len(steps)) % 2 == 0
    assert found.weights(part) @ flops == pytest.approx(found.filled(flops)[part].sum(), rel=1e-3, abs=1)


@given(STEPS)
def test_steps_of_recorded_likes_are_exact(steps: list[tuple[bool, int, int]]) -> None:
    recorded = np.array([step[0] for step in steps])
    like = column([s[1] + 1 for s in steps])
    truth = 1000 * like
    known = np.isin(like, like[recorded])
    if recorded.any():
        found = SampledSteps(recorded, like, column([s[2] for s in steps]), [truth * recorded])
        assert (found.filled(truth * recorded)[known] == truth[known]).all()
        assert (found.origin[known & ~recorded] == LIKE).all()
        assert (found.origin[~known] == ESTIMATED).all()


def test_sampled_steps_alike_in_number_but_not_in_bytes_are_estimates() -> None:
    recorded, like = np.array([True, True, False]), column([1, 1, 1])
    steps = SampledSteps(recorded, like, column([8, 8, 8]), [column([5, 5, 0]), column([10, 30, 0])])
    assert steps.origin.tolist() == [RECORDED, RECORDED, ESTIMATED]
