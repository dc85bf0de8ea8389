"""What lies between two steps: from when to when, and of which kind."""

from __future__ import annotations

from itertools import pairwise

import pytest
from roofline_agent.hooks.torch.between_steps import CHECKPOINT, EVALUATION, OTHER, WITHOUT_GRADIENTS, Between

MS = 10**6
Said = list[tuple[str, int, int]]


def before(
    between: Between, step: int, border: int = 0, limit: int = 1000 * MS, end: int = 1010 * MS
) -> Said:
    return between.before(step, border, limit, end)


def test_step_begins_where_an_evaluation_ended() -> None:
    between = Between()
    between.add(EVALUATION, 50 * MS, 90 * MS, certain=True)
    assert before(between, 5) == [(OTHER, 0, 50 * MS), (EVALUATION, 50 * MS, 90 * MS)]
    assert before(between, 5) == [], "taken once"


def test_what_precedes_a_checkpoint_is_its_preparation_and_short_gaps_are_none() -> None:
    between = Between()
    between.add(EVALUATION, MS // 2, 20 * MS, certain=True)
    between.add(CHECKPOINT, 40 * MS, 50 * MS, certain=True)
    assert before(between, 5) == [(EVALUATION, 0, 20 * MS), (CHECKPOINT, 20 * MS, 50 * MS)]


def test_checkpoint_inside_an_evaluation() -> None:
    between = Between()
    between.add(CHECKPOINT, 20 * MS, 30 * MS, certain=True)
    between.add(EVALUATION, 0, 40 * MS, certain=True)
    assert before(between, 5) == [
        (EVALUATION, 0, 20 * MS),
        (CHECKPOINT, 20 * MS, 30 * MS),
        (EVALUATION, 30 * MS, 40 * MS),
    ]


@pytest.mark.parametrize(
    ("left", "found"),
    [
        (30 * MS + 20000, [(CHECKPOINT, 20 * MS, 30 * MS + 20000)]),
        (35 * MS, [(CHECKPOINT, 20 * MS, 30 * MS), (OTHER, 30 * MS, 35 * MS)]),
    ],
)
def test_evaluation_that_saves_the_best_model_at_its_end_is_one(left: int, found: Said) -> None:
    between = Between()
    between.add(EVALUATION, MS, 15 * MS, certain=True)  # its DataLoader
    between.add(CHECKPOINT, 20 * MS, 30 * MS, certain=True)
    between.add(EVALUATION, 0, left, certain=False)  # until model.train()
    assert before(between, 5) == [(EVALUATION, 0, 20 * MS), *found]


def test_evaluations_before_and_after_a_checkpoint_are_two() -> None:
    between = Between()
    between.add(EVALUATION, MS, 15 * MS, certain=True)
    between.add(CHECKPOINT, 20 * MS, 30 * MS, certain=True)
    between.add(EVALUATION, 32 * MS, 40 * MS, certain=True)
    between.add(EVALUATION, 0, 41 * MS, certain=False)
    assert before(between, 5) == [
        (EVALUATION, 0, 20 * MS),
        (CHECKPOINT, 20 * MS, 30 * MS),
        (EVALUATION, 30 * MS, 41 * MS),
    ]


def test_pieces_leave_nothing_out() -> None:
    between = Between()
    for begin, kind in ((7, EVALUATION), (30, CHECKPOINT), (35, EVALUATION), (50, EVALUATION)):
        between.add(kind, begin * MS, (begin + 4) * MS, certain=True)
    found = before(between, 5)
    assert (found[0][1], found[-1][2]) == (0, 54 * MS)
    assert all(one[2] == other[1] for one, other in pairwise(found))


def test_what_began_while_the_step_went_on_is_in_it() -> None:
    between = Between()
    between.add(EVALUATION, 50 * MS, 90 * MS, certain=True)
    assert before(between, 5, limit=60 * MS, end=200 * MS) == []
    assert between.stretches == []


def test_what_follows_a_border_that_was_held_is_kept_for_the_next_step() -> None:
    between = Between()
    between.add(EVALUATION, 50 * MS, 90 * MS, certain=True)
    assert before(between, 5, limit=10 * MS, end=40 * MS) == []
    assert before(between, 6, border=50 * MS, limit=100 * MS, end=200 * MS)


@pytest.mark.parametrize(("lasts", "counts"), [(40 * MS, True), (10 * MS, False), (MS // 20, False)])
def test_what_is_not_certain_counts_if_it_lasts(lasts: int, counts: bool) -> None:
    between = Between()
    between.add(EVALUATION, 0, lasts, certain=False)
    assert bool(before(between, 5, limit=100 * MS, end=lasts + 100 * MS)) == counts


def test_what_is_done_before_every_step_is_part_of_them() -> None:
    between, counted = Between(), []
    for step in range(1, 10):
        between.add(EVALUATION, 0, (40 + step) * MS, certain=False)
        counted.append(bool(before(between, step, end=100 * MS, limit=60 * MS)))
    assert not any(counted)


def test_what_is_done_now_and_then_is_not() -> None:
    between, counted = Between(), []
    for step in range(1, 10):
        if step % 3 == 0:
            between.add(EVALUATION, 0, 50 * MS, certain=False)
        counted.append(bool(before(between, step, end=100 * MS, limit=60 * MS)))
    assert [step for step, one in enumerate(counted, 1) if one] == [3, 6, 9]


def test_gradients_that_are_off_may_be_anything_but_in_an_evaluation_they_are_its() -> None:
    between = Between()
    between.add(WITHOUT_GRADIENTS, 0, 50 * MS, certain=False)
    assert before(between, 2, limit=100 * MS, end=150 * MS) == [(WITHOUT_GRADIENTS, 0, 50 * MS)]
    between.add(WITHOUT_GRADIENTS, 10 * MS, 50 * MS, certain=False)
    between.add(CHECKPOINT, 60 * MS, 70 * MS, certain=True)
    between.add(EVALUATION, 0, 70 * MS, certain=False)  # from model.eval() to model.train()
    assert before(between, 4) == [(EVALUATION, 0, 60 * MS), (CHECKPOINT, 60 * MS, 70 * MS)]
    between.add(WITHOUT_GRADIENTS, 0, 20 * MS, certain=False)
    between.add(EVALUATION, 20 * MS, 50 * MS, certain=True)
    assert before(between, 6) == [(EVALUATION, 0, 50 * MS)]


def test_mode_that_ends_behind_the_checkpoint_may_have_begun_after_the_evaluation() -> None:
    between = Between()
    between.add(EVALUATION, 0, 19 * MS, certain=True)  # Lightning's loop
    between.add(CHECKPOINT, 20 * MS, 30 * MS, certain=True)
    between.add(EVALUATION, 1 * MS, 33 * MS, certain=False)  # model.eval() is inside it
    assert before(between, 5) == [
        (EVALUATION, 0, 20 * MS),
        (CHECKPOINT, 20 * MS, 30 * MS),
        (OTHER, 30 * MS, 33 * MS),
    ]


def test_evaluation_that_saves_before_gradients_are_on_again_is_one() -> None:
    between = Between()
    between.add(EVALUATION, MS, 15 * MS, certain=True)
    between.add(CHECKPOINT, 20 * MS, 30 * MS, certain=True)
    between.add(WITHOUT_GRADIENTS, MS // 4, 32 * MS, certain=False)  # as Lightning's loop runs
    between.add(EVALUATION, 0, 35 * MS, certain=True)
    assert before(between, 5) == [
        (EVALUATION, 0, 20 * MS),
        (CHECKPOINT, 20 * MS, 30 * MS),
        (OTHER, 30 * MS, 35 * MS),
    ]
