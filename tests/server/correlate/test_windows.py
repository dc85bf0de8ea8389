from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.correlate.windows import (
    MOST_OPEN,
    attempts,
    build,
    joined,
    last_needed,
    needed_before,
    synchronous,
)
from roofline_server.records import ABSENT, concatenate, rows, take

from ..builders import BEGIN, BORDER, END, mark_table, triples, window_table


def built(*found: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
    return triples(build(mark_table(found)))


def test_no_marks_make_no_windows() -> None:
    assert rows(build({})) == 0
    assert built((1, BEGIN, 1, 10)) == []


def test_begin_and_end_of_a_step_make_a_window() -> None:
    assert built((1, BEGIN, 7, 10), (1, END, 7, 20)) == [(1, 7, 10, 20)]


def test_step_lasts_from_border_to_border_and_has_the_number_of_the_later() -> None:
    assert built((1, BORDER, 1, 10), (1, BORDER, 2, 20), (1, BORDER, 3, 35)) == [
        (1, 2, 10, 20),
        (1, 3, 20, 35),
    ]


def test_no_window_goes_over_a_hole_in_the_numbers() -> None:
    assert built((1, BORDER, 1, 10), (1, BORDER, 2, 20), (1, BORDER, 5, 50), (1, BORDER, 6, 60)) == [
        (1, 2, 10, 20),
        (1, 6, 50, 60),
    ]


def test_numbers_that_start_again_make_no_window_between() -> None:
    assert built((1, BORDER, 8, 10), (1, BORDER, 9, 20), (1, BORDER, 0, 100), (1, BORDER, 1, 110)) == [
        (1, 9, 10, 20),
        (1, 1, 100, 110),
    ]


def test_of_a_step_done_twice_each_begin_meets_its_own_end() -> None:
    assert built((1, BEGIN, 3, 10), (1, END, 3, 20), (1, BEGIN, 3, 100), (1, END, 3, 130)) == [
        (1, 3, 10, 20),
        (1, 3, 100, 130),
    ]


def test_mark_that_came_twice_changes_nothing() -> None:
    borders = [(1, BORDER, 1, 10), (1, BORDER, 2, 20), (1, BORDER, 3, 35)]
    pairs = [(2, BEGIN, 7, 10), (2, END, 7, 20), (2, BEGIN, 8, 30), (2, END, 8, 44)]
    once = [*borders, *pairs]
    assert len(built(*once)) == 4
    for mark in once:
        assert built(*once, mark) == built(*once), mark


def test_step_whose_end_was_lost_has_no_window() -> None:
    assert built((1, BEGIN, 1, 10), (1, BEGIN, 2, 20), (1, END, 2, 30)) == [(1, 2, 20, 30)]


def test_step_begun_again_counts_from_the_second_begin() -> None:
    assert built((1, BEGIN, 1, 10), (1, BEGIN, 1, 50), (1, END, 1, 60)) == [(1, 1, 50, 60)]


def test_end_without_begin_has_no_window() -> None:
    assert built((1, END, 1, 10), (1, END, 1, 20)) == []


def test_step_of_no_duration_is_a_window() -> None:
    assert built((1, BEGIN, 1, 10), (1, END, 1, 10)) == [(1, 1, 10, 10)]


def test_marks_of_other_ranks_do_not_mix() -> None:
    assert built((1, BEGIN, 1, 10), (2, BEGIN, 1, 11), (2, END, 1, 19), (1, END, 1, 20)) == [
        (1, 1, 10, 20),
        (2, 1, 11, 19),
    ]
    assert built((1, BORDER, 1, 10), (2, BORDER, 2, 20)) == []


def test_steps_of_a_rank_may_overlap() -> None:
    assert built((1, BEGIN, 1, 10), (1, BEGIN, 2, 15), (1, END, 1, 20), (1, END, 2, 25)) == [
        (1, 1, 10, 20),
        (1, 2, 15, 25),
    ]


STEPS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 50), st.integers(0, 9)), min_size=1, max_size=20)


@given(STEPS, st.randoms(use_true_random=False), st.booleans())
def test_order_of_marks_does_not_matter(
    steps: list[tuple[int, int, int]], random: object, borders: bool
) -> None:
    time, found = 0, []
    for number, (rank, length, pause) in enumerate(steps):
        time += pause
        kinds = [(BORDER, number), (BORDER, number + 1)] if borders else [(BEGIN, number), (END, number)]
        for kind, step in kinds:
            found.append((rank, kind, step, time))
            time += length
    in_order = built(*found)
    random.shuffle(found)  # type: ignore[attr-defined]
    assert built(*found) == in_order
    if not borders:
        assert len(in_order) == len(steps)


def test_end_knows_the_examples_better_than_the_begin() -> None:
    marks = mark_table([(1, BEGIN, 1, 10), (1, END, 1, 20), (1, BEGIN, 2, 30), (1, END, 2, 40)])
    marks["examples"] = np.array([5, 7, 8, ABSENT])
    assert build(marks)["examples"].tolist() == [7, 8]


def test_examples_of_a_border_are_those_of_the_step_it_ends() -> None:
    marks = mark_table([(1, BORDER, 1, 10), (1, BORDER, 2, 20), (1, BORDER, 3, 30)])
    marks["examples"] = np.array([5, 6, ABSENT])
    assert build(marks)["examples"].tolist() == [6, ABSENT]


def test_examples_nobody_said_are_absent() -> None:
    assert build(mark_table([(1, BEGIN, 1, 10), (1, END, 1, 20)], examples=ABSENT))["examples"].tolist() == [
        ABSENT
    ]


def test_no_window_goes_from_one_process_of_a_rank_to_the_next() -> None:
    # Saved at step 8 and ended; the next process restores and its first border is 9, an hour later.
    marks = mark_table([(1, BORDER, 7, 10), (1, BORDER, 8, 20), (1, BORDER, 9, 3620), (1, BORDER, 10, 3630)])
    marks["start_ns"] = np.array([1, 1, 3600, 3600])
    assert triples(build(marks)) == [(1, 8, 10, 20), (1, 10, 3620, 3630)]


# -- what lies between two steps -------------------------------------------------------------------


def test_step_that_began_later_than_the_border_before_lasts_from_its_begin() -> None:
    windows = build(
        mark_table(
            [
                (1, BORDER, 1, 10),
                (1, BORDER, 2, 20),
                (1, BEGIN, 3, 50),
                (1, BORDER, 3, 60),
                (1, BORDER, 4, 70),
            ]
        )
    )
    assert triples(windows) == [(1, 2, 10, 20), (1, 3, 50, 60), (1, 4, 60, 70)]
    assert windows["apart"].tolist() == [0, 1, 0]


def test_step_that_begins_in_the_moment_of_the_border_is_as_without_its_begin() -> None:
    borders = [(1, BORDER, k, 10 * k) for k in range(1, 5)]
    begins = [(1, BEGIN, k, 10 * (k - 1)) for k in range(2, 5)]
    assert built(*borders, *begins) == built(*borders)


def test_begin_and_border_make_a_step_though_the_border_before_was_lost() -> None:
    assert built((1, BEGIN, 7, 50), (1, BORDER, 7, 60), (1, BORDER, 8, 75)) == [
        (1, 7, 50, 60),
        (1, 8, 60, 75),
    ]


def test_begin_of_another_step_moves_nothing() -> None:
    # The border of step 3 was lost: where step 4 began is not known.
    assert built((1, BORDER, 2, 20), (1, BEGIN, 3, 50), (1, BORDER, 4, 70), (1, BORDER, 5, 80)) == [
        (1, 5, 70, 80)
    ]


def test_begin_of_an_earlier_attempt_moves_nothing() -> None:
    assert built((1, BEGIN, 1, 5), (1, BORDER, 9, 10), (1, BORDER, 0, 20), (1, BORDER, 1, 30)) == [
        (1, 1, 20, 30)
    ]


def test_begin_of_another_process_moves_nothing() -> None:
    marks = mark_table([(1, BORDER, 1, 10), (1, BEGIN, 2, 15), (1, BORDER, 2, 3620), (1, BORDER, 3, 3630)])
    marks["start_ns"] = np.array([1, 1, 3600, 3600])
    assert triples(build(marks)) == [(1, 3, 3620, 3630)]


def test_ranks_that_mark_in_different_ways_do_not_disturb_each_other() -> None:
    borders = [(1, BORDER, 1, 10), (1, BEGIN, 2, 14), (1, BORDER, 2, 20)]
    pairs = [(2, BEGIN, 2, 11), (2, END, 2, 19), (2, BEGIN, 3, 21)]
    assert built(*borders, *pairs) == [(1, 2, 14, 20), (2, 2, 11, 19)]


def test_step_is_like_what_its_last_mark_says() -> None:
    marks = mark_table(
        [(1, BORDER, 1, 10), (1, BEGIN, 2, 15), (1, BORDER, 2, 20), (2, BEGIN, 1, 10), (2, END, 1, 12)]
    )
    marks["like"] = np.array([1, 4, 4, 7, 7])
    assert build(marks)["like"].tolist() == [4, 7]
    marks["like"][:] = ABSENT  # stored by an older server
    assert build(marks)["like"].tolist() == [0, 0]
    assert build(mark_table([(1, BORDER, 1, 10), (1, BORDER, 2, 20)]))["like"].tolist() == [0]


# -- synchronous or not ----------------------------------------------------------------------------


def test_one_rank_is_synchronous() -> None:
    assert synchronous(window_table([(1, 1, 0, 10)]))


def test_nothing_is_not_synchronous() -> None:
    assert not synchronous({})


def test_ranks_whose_steps_share_moments_are_synchronous() -> None:
    assert synchronous(window_table([(r, k, 10 * k + r, 10 * k + 9) for k in range(20) for r in (1, 2, 3)]))


def test_ranks_whose_steps_drift_apart_are_asynchronous() -> None:
    assert not synchronous(
        window_table([(r, k, k * (8 + 4 * r), k * (8 + 4 * r) + 8) for k in range(20) for r in (1, 2)])
    )


@given(st.lists(st.integers(0, 30), min_size=60, max_size=60), st.randoms())
def test_the_order_of_the_windows_does_not_matter(begins: list[int], random: Random) -> None:
    """Those in order of rank and step are looked at in another way."""
    ordered = window_table(
        [(r, k, 20 * k + begins[20 * r + k], 20 * k + 30) for r in range(3) for k in range(20)]
    )
    mixed = list(range(60))
    random.shuffle(mixed)
    assert synchronous(ordered) == synchronous(take(ordered, np.array(mixed)))


def test_marks_that_say_so_decide() -> None:
    windows = window_table([(r, k, 10 * k, 10 * k + 9) for k in range(20) for r in (1, 2)])
    assert synchronous(windows)
    windows["asynchronous"][3] = 1
    assert not synchronous(windows)


def test_a_tenth_of_odd_steps_is_tolerated_and_no_more() -> None:
    def with_odd(odd: int) -> bool:
        shift = [100_000 if k < odd else 0 for k in range(20)]
        return synchronous(
            window_table(
                [
                    (r, k, 100 * k + shift[k] * (r - 1), 100 * k + shift[k] * (r - 1) + 90)
                    for k in range(20)
                    for r in (1, 2)
                ]
            )
        )

    assert with_odd(2)
    assert not with_odd(3)


def test_ranks_without_a_common_step_are_not_synchronous() -> None:
    assert not synchronous(window_table([(1, 1, 0, 10), (2, 2, 0, 10)]))


def test_steps_that_some_rank_lacks_say_nothing() -> None:
    shared = [(r, k, 10 * k, 10 * k + 9) for k in range(5) for r in (1, 2)]
    assert synchronous(window_table([*shared, (1, 5, 1000, 1001), (1, 6, 0, 1)]))


# -- what later windows need -----------------------------------------------------------------------


def needed(through: int, *found: tuple[int, int, int, int]) -> int:
    marks = mark_table(found)
    return last_needed(marks, build(marks), through)


def test_nothing_open_needs_nothing_older() -> None:
    assert needed(100, (1, BEGIN, 1, 10), (1, END, 1, 20)) == 100
    assert needed(100) == 100


def test_open_step_needs_its_begin() -> None:
    assert needed(100, (1, BEGIN, 1, 10), (1, END, 1, 20), (1, BEGIN, 2, 30)) == 30


def test_last_border_is_needed() -> None:
    assert needed(100, (1, BORDER, 1, 10), (1, BORDER, 2, 20)) == 20


def test_window_that_ends_later_needs_its_begin() -> None:
    assert needed(15, (1, BEGIN, 1, 10), (1, END, 1, 20), (2, BORDER, 1, 12)) == 10


def test_marks_of_phases_open_nothing() -> None:
    assert needed(100, (1, BEGIN, 1, 10), (1, END, 1, 20), (1, 4, 1, 30)) == 100


def test_begin_that_a_border_closed_is_not_needed() -> None:
    assert needed(100, (1, BORDER, 1, 10), (1, BEGIN, 2, 15), (1, BORDER, 2, 20)) == 20
    assert needed(100, (1, BEGIN, 1, 5), (1, BORDER, 1, 10), (1, BEGIN, 2, 15)) == 10
    assert needed(100, (2, BEGIN, 1, 5), (1, BORDER, 1, 10)) == 5


def test_open_step_below_a_closed_one_needs_its_begin() -> None:
    assert needed(100, (1, BEGIN, 1, 10), (1, BEGIN, 2, 20), (1, END, 2, 30)) == 10


def marks_of(steps: list[tuple[int, int, int]], kind: str) -> list[tuple[int, int, int, int]]:
    """Marks of steps (rank, length, pause before it), each rank's one after the other."""
    clocks, numbers = {1: 0, 2: 0, 3: 0}, {1: 0, 2: 0, 3: 0}
    found = []
    for rank, length, pause in steps:
        begin, number = clocks[rank] + pause, numbers[rank] + 1
        clocks[rank], numbers[rank] = begin + length, number
        if kind == "pairs":
            found += [(rank, BEGIN, number, begin), (rank, END, number, begin + length)]
            continue
        if kind == "apart" and pause:
            found.append((rank, BEGIN, number, begin))
        found.append((rank, BORDER, number, begin + length))
    return found


KINDS = st.sampled_from(["pairs", "borders", "apart"])


@given(STEPS, st.randoms(use_true_random=False))
def test_steps_with_what_lies_between_them_are_those_that_were_done(
    steps: list[tuple[int, int, int]], random: object
) -> None:
    """Steps by borders and begins are what pairs of marks make of the same training."""
    found = marks_of(steps, "apart")
    random.shuffle(found)  # type: ignore[attr-defined]
    expected = built(*marks_of(steps, "pairs"))
    first = {rank: min(at for at, step in enumerate(steps) if step[0] == rank) for rank, _, _ in steps}
    # Without a begin of its own the first step of a rank is not known.
    unknown = {rank for rank, at in first.items() if not steps[at][2]}
    assert built(*found) == [w for w in expected if not (w[0] in unknown and w[1] == 1)]


@given(STEPS, st.integers(0, 1000), KINDS)
def test_marks_before_what_is_needed_change_no_later_window(
    steps: list[tuple[int, int, int]], through: int, kind: str
) -> None:
    marks = mark_table(marks_of(steps, kind))
    windows = build(marks)
    since = last_needed(marks, windows, through)
    later = [w for w in triples(windows) if w[3] > through]
    kept = build(take(marks, marks["time_ns"] >= since))
    assert [w for w in triples(kept) if w[3] > through] == later


@given(STEPS, st.integers(0, 1000), st.integers(0, 1000), KINDS)
def test_of_marks_before_any_moment_a_few_are_enough_for_later_windows(
    steps: list[tuple[int, int, int]], through: int, before: int, kind: str
) -> None:
    marks, before = mark_table(marks_of(steps, kind)), min(through, before)
    windows = build(marks)
    later = [w for w in triples(windows) if w[3] > through]
    some = needed_before(marks, windows, through, before)
    kept = build(concatenate([some, take(marks, marks["time_ns"] >= before)]))
    assert [w for w in triples(kept) if w[3] > through] == later
    assert rows(some) <= 3 * 2  # of three ranks the last border, and a begin


def test_of_steps_that_never_end_the_newest_are_enough() -> None:
    marks = mark_table([(rank, BEGIN, k, 10 * k) for rank in (1, 2) for k in range(100)])
    some = needed_before(marks, build(marks), 2000, 1500)
    assert some["step"].tolist() == 2 * list(range(100 - MOST_OPEN, 100))


# -- steps done again ------------------------------------------------------------------------------


def attempts_of(*found: tuple[int, int, int, int]) -> list[int]:
    return attempts(window_table(list(found)), "rank", "step").tolist()


def test_steps_done_once_are_first_attempts() -> None:
    assert attempts_of((1, 0, 0, 9), (2, 0, 100, 109), (1, 1, 10, 19)) == [0, 0, 0]
    assert attempts_of() == []


def test_epochs_that_count_from_zero_are_attempts() -> None:
    assert attempts_of(*((1, k % 3, 10 * k, 10 * k + 9) for k in range(9))) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_ranks_that_do_a_step_again_together_share_the_attempt() -> None:
    found = [(1, 5, 0, 90), (2, 5, 5, 95), (2, 5, 1000, 1090), (1, 5, 1010, 1100)]
    assert attempts_of(*found) == [0, 0, 1, 1]


def test_new_rank_of_a_second_attempt_belongs_to_it() -> None:
    assert attempts_of((1, 5, 0, 90), (1, 5, 1000, 1090), (2, 5, 1005, 1095)) == [0, 1, 1]


def test_two_windows_of_one_round_behind_one_another_are_one_attempt() -> None:
    # A coordinator's queue gave one worker both closures of the round.
    assert attempts_of((1, 5, 0, 90), (1, 5, 91, 180), (2, 5, 0, 100)) == [0, 0, 0]


@given(st.lists(st.tuples(*[st.integers(-(2**62), 2**62)] * 2), min_size=1, max_size=30))
def test_joined_numbers_keep_the_order_of_their_columns(found: list[tuple[int, int]]) -> None:
    key = joined(*(np.array([row[i] for row in found], np.int64) for i in range(2)))
    ranked = {pair: at for at, pair in enumerate(sorted(set(found)))}
    mine = {k: at for at, k in enumerate(sorted(set(key.tolist())))}
    assert [mine[k] for k in key.tolist()] == [ranked[pair] for pair in found]
