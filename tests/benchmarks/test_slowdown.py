"""What the slowdown's benchmark makes of what it measured."""

from __future__ import annotations

import random

import pytest

from .quiet import Usage, noise, parse_steal
from .trainings.step_clock import StepClock, batch_for, find_batch, read_clock
from .turns import Interval, Turn, against_neighbours, interval, interval_of_means, steps_of, verdict

MS = 1_000_000


def test_steps_of_a_turn_leave_out_the_one_with_the_stop_in_it() -> None:
    stopped_until = 1000 * MS
    ends = [990 * MS, *(stopped_until + at * MS for at in (30, 40, 50, 60, 70, 80, 91)), 2500 * MS]
    turn = Turn(1, stopped_until, 2000 * MS, cpu_ns=70 * MS, beside_ns=7 * MS)
    steps = steps_of(turn, ends)
    assert steps is not None
    assert steps.mean == pytest.approx(0.0102)
    assert steps.median == pytest.approx(0.010)
    assert (steps.cpu, steps.beside) == pytest.approx((0.011, 0.001))


def test_turn_with_few_steps_says_nothing() -> None:
    assert steps_of(Turn(0, 0, 100 * MS), [10 * MS, 50 * MS, 90 * MS]) is None


def test_each_turn_is_held_against_the_bare_ones_beside_it() -> None:
    sides, values = [0, 1, 0, 2, 0, 1, 0], [1.0, 1.1, 1.2, 1.5, 0.8, None, 0.8]
    ratios = against_neighbours(sides, values)
    assert ratios[1] == pytest.approx([0.0])
    assert ratios[2] == pytest.approx([0.5])


def test_interval_holds_the_truth_and_narrows_with_turns() -> None:
    draw = random.Random(3)
    few, many = ([[draw.gauss(0.005, 0.02) for _ in range(count)]] for count in (15, 600))
    wide, narrow = interval(few), interval(many)
    assert narrow.low < 0.005 < narrow.high
    assert narrow.high - narrow.low < (wide.high - wide.low) / 3


def test_interval_is_as_wide_as_processes_differ() -> None:
    differing = [[0.05] * 20, [0.0] * 20, [-0.05] * 20]
    same = [[0.05, 0.0, -0.05] * 7] * 3
    assert interval(differing).high - interval(differing).low > 0.09
    assert interval(differing).middle == interval(same).middle == 0.0
    assert interval([[0.01] * 5, []]) == Interval(0.01, 0.01, 0.01)


def test_cost_that_comes_in_lumps_is_in_the_interval_of_means() -> None:
    draw = random.Random(5)
    pairs = [
        (one, one + (0.5 if at % 5 == 0 else 0.0)) for at in range(50) for one in [draw.gauss(1.0, 0.02)]
    ]
    found = interval_of_means(pairs)
    assert found.middle == pytest.approx(0.1, abs=0.005)
    assert 0.03 < found.low < 0.1 < found.high < 0.17
    assert interval([[second / first - 1 for first, second in pairs]]).middle == 0.0


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Interval(0.004, -0.002, 0.009), "below 1.0%"),
        (Interval(0.02, 0.012, 0.03), "above 1.0%"),
        (Interval(0.004, -0.01, 0.02), "not settled"),
    ],
)
def test_what_is_said_follows_the_interval(found: Interval, said: str) -> None:
    assert verdict(found, 0.01) == said


def test_noise_is_what_others_and_the_hypervisor_took() -> None:
    before = Usage(0, {1: 0, 2: 100 * MS}, 0)
    after = Usage(1000 * MS, {1: 900 * MS, 2: 120 * MS, 3: 40 * MS}, 20 * MS)
    found = noise(before, after, ours={1}, cpus=2)
    assert found == pytest.approx((0.03, 0.01))
    assert not found.is_quiet
    assert noise(before, after, ours={1, 2, 3}, cpus=2).others == 0


def test_steal_is_the_eighth_number_of_the_first_line() -> None:
    assert parse_steal("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n") == 80 * MS


def test_step_clock_is_read_while_it_is_written(tmp_path) -> None:
    assert read_clock(str(tmp_path / "clock")) == []
    clock = StepClock(str(tmp_path / "clock"))
    assert read_clock(str(tmp_path / "clock")) == []
    clock.tick()
    clock.tick()
    first, second = read_clock(str(tmp_path / "clock"))
    assert 0 < first <= second


def test_batch_lies_on_the_line_through_the_trials() -> None:
    assert batch_for(5, {4: 0.002, 32: 0.016}) == 10
    assert batch_for(1, {4: 0.002, 32: 0.016}) == 2
    assert batch_for(0.1, {4: 0.002, 32: 0.016}) == 1


def test_found_batch_is_tried_and_corrected() -> None:
    """A line through small batches is off where caches overflow."""
    assert find_batch(5, lambda batch: batch * (0.0005 if batch <= 8 else 0.0004)) in (12, 13)
