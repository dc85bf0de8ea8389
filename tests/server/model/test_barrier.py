from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.model.barrier import align, held_by_join, lateness, time_a_step_of, waits
from roofline_server.model.evidence import StepEvidence
from roofline_server.records import ABSENT

S = 1_000_000_000


def steps(*found: tuple[int, float, float]) -> StepEvidence:
    """found: (step, begin, end), seconds."""
    column = [np.array(values) for values in zip(*found, strict=True)] or [np.zeros(0)] * 3
    return StepEvidence(
        column[0].astype(np.int64),
        (column[1] * S).astype(np.int64),
        (column[2] * S).astype(np.int64),
        np.full(len(column[0]), ABSENT),
    )


def test_steps_of_ranks_stand_side_by_side_by_their_number() -> None:
    grid = align([steps((0, 0, 1), (1, 1, 2)), steps((1, 1, 2), (2, 2, 3))])
    assert grid.step.tolist() == [0, 1, 2]
    assert grid.at.tolist() == [[0, -1], [1, 0], [-1, 1]]


def test_step_done_again_is_a_row_of_its_own() -> None:
    both = steps((0, 0, 1), (1, 1, 2), (1, 50, 51), (2, 51, 52))
    grid = align([both, both])
    assert grid.step.tolist() == [0, 1, 1, 2]
    assert grid.at[:, 0].tolist() == [0, 1, 2, 3]
    assert grid.begin_ns.tolist() == [0, S, 50 * S, 51 * S]


def test_who_is_held_shortest_came_last_and_waited_for_nobody() -> None:
    held = np.array([[0.5, 0.1, 0.3]])
    assert waits(held).tolist() == [pytest.approx([0.4, 0.0, 0.2])]
    assert lateness(held).tolist() == [pytest.approx([0.0, 0.4, 0.2])]


def test_one_known_rank_waits_for_nobody_known() -> None:
    held = np.array([[0.5, np.nan], [np.nan, np.nan], [0.5, 0.25]])
    assert np.isnan(waits(held)[:2]).all()
    assert waits(held)[2].tolist() == [0.25, 0.0]


def test_at_a_join_all_wait_for_the_last_end() -> None:
    ranks = [steps((0, 0, 1.0)), steps((0, 0, 1.75))]
    assert held_by_join(align(ranks), ranks).tolist() == [[0.75, 0.0]]


def test_time_of_all_steps_for_each_that_a_rank_took_part_in() -> None:
    early, late = steps((0, 0, 1), (1, 1, 2), (2, 2, 4)), steps((2, 2, 4))
    grid, durations = align([early, late]), [np.array([1.0, 1.0, 2.0]), np.array([2.0])]
    found = [time_a_step_of(grid, durations, columns) for columns in ([], [0], [1], [0, 1])]
    assert found == pytest.approx([4 / 3, 4 / 3, 4, 4])
    alone = align([early, steps((7, 9, 10))])
    assert time_a_step_of(alone, [durations[0], np.array([1.0])], [0, 1]) == 0


def test_nothing_aligns_to_nothing() -> None:
    assert align([]).at.shape == (0, 0)
    assert align([steps(), steps()]).at.shape == (0, 2)


@given(st.lists(st.lists(st.floats(0, 10), min_size=3, max_size=3), min_size=1, max_size=20))
def test_wait_and_lateness_are_two_views_of_one_thing(held: list[list[float]]) -> None:
    table = np.array(held)
    spread = table.max(axis=1) - table.min(axis=1)
    assert np.allclose(waits(table) + lateness(table), spread[:, None])
    assert (waits(table) >= 0).all()
    assert (waits(table).min(axis=1) == 0).all()


def test_ranks_that_did_the_same_steps_are_put_side_by_side_as_any_others() -> None:
    early = steps((3, 0, 1), (4, 1, 2), (6, 2, 3))
    late = steps((3, 0.25, 1.5), (4, 1.25, 2.5), (6, 2.25, 3.5))
    grid, another = align([early, late]), align([early, late, steps((7, 9, 10))])
    assert grid.is_whole
    assert not another.is_whole
    assert grid.at.tolist() == another.at[:3, :2].tolist() == [[0, 0], [1, 1], [2, 2]]
    for which in (0, 1, 2):
        assert grid[which].tolist() == another[which][:3].tolist()
    columns = [np.array([0.1, np.nan, 0.3]), None]
    as_any = grid._replace(is_whole=False)
    assert np.array_equal(grid.place(columns), as_any.place(columns), equal_nan=True)
