from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial

import pytest
from roofline_agent.calibrate.hardware import Hardware
from roofline_agent.calibrate.runs import (
    NORMAL,
    Job,
    Rate,
    clock_of_fastest,
    describe_effort,
    measure_rate,
    repeat,
    run_seconds,
    shares,
    summarize,
    units_for,
)
from roofline_agent.calibrate.team import Took

NODE = Hardware("node1", "a CPU", frozenset(), (0, 1), (), 0, node_cpus=2)


def test_value_is_the_best_run_and_spread_the_way_down_to_the_worst() -> None:
    assert summarize([80.0, 100.0, 75.0]) == Rate(100.0, 80.0, 0.25, runs=3)


def test_equal_runs_have_no_spread() -> None:
    assert summarize([5.0, 5.0]).spread == 0.0


def test_quiet_runs_are_not_repeated() -> None:
    rates = iter([90.0, 100.0, 95.0])
    assert repeat(3, lambda: next(rates)) == Rate(100.0, 95.0, 0.1, runs=3)


def test_disturbed_runs_of_an_impatient_plan_are_left_at_that() -> None:
    rates = iter([50.0, 80.0, 60.0])
    assert repeat(3, lambda: next(rates), patient=False) == Rate(80.0, 60.0, 0.375, runs=3)


def test_clock_is_that_of_the_fastest_runs() -> None:
    slow = [(50.0, (3.5e9,))] * 3  # taken away, then sped up again
    interrupted = (99.0, (0.3e9,))
    assert clock_of_fastest([*slow, (100.0, (2.4e9,)), (98.0, (2.5e9,)), interrupted]) == 2.5e9
    assert clock_of_fastest([(1.0, (3e9,))]) == 3e9
    assert clock_of_fastest([]) is None
    assert clock_of_fastest([(1.0, ()), (2.0, ())]) is None


def test_clock_is_the_mean_of_cores_that_differ() -> None:
    assert clock_of_fastest([(1.0, (3e9, 2e9)), (1.0, (3e9, 2e9)), (0.5, (1e9, 1e9))]) == 2.5e9
    assert clock_of_fastest([(1.0, (3e9, None)), (0.9, (3e9, 2e9))]) == 3e9  # of the fastest half


def test_interruptions_of_one_core_are_not_its_clock() -> None:
    runs = [(1.0 + k / 100, (3e9, 2e9 if k % 2 else 1e9)) for k in range(10)]
    assert clock_of_fastest(runs) == 2.5e9
    sped_up = [*runs[:8], (2.0, (3e9, 3.6e9)), (1.9, (3e9, 2e9))]
    assert clock_of_fastest(sped_up) == 2.5e9


def run_of(speeds: Sequence[float], units: Sequence[int]) -> Took:
    each = tuple(count / speed for count, speed in zip(units, speeds, strict=True))
    return Took(max(each), each)


def test_cpus_of_one_speed_do_the_same_work() -> None:
    assert shares(100, 3, partial(run_of, (1.0, 1.1, 1.0))) == (100, 100, 100)


def test_faster_cpus_do_more_so_that_none_waits_for_the_slowest() -> None:
    units = shares(100, 3, partial(run_of, (3.0, 3.0, 1.5)))
    assert units == (120, 120, 60)
    # All three at once can do 7.5 units a second, and equal work would show 3 x 1.5.
    assert sum(units) / run_of((3.0, 3.0, 1.5), units).whole == pytest.approx(7.5)


def test_shares_that_do_not_help_are_not_taken() -> None:
    def shared(units: Sequence[int]) -> Took:
        # What all wait for, as memory's bandwidth, is not shared out by the work of each.
        return Took(sum(units) / 100, (1.0, *[2.0] * (len(units) - 1)))

    assert shares(10, 2, shared) == (10, 10)


def test_interrupted_cpu_is_not_a_slow_one() -> None:
    slow_first = iter([(1.0, 0.3), (1.0, 1.0), (0.4, 1.0)])
    assert shares(100, 2, lambda units: run_of(next(slow_first), units)) == (100, 100)


def test_rate_is_all_work_over_the_time_of_the_whole() -> None:
    cpus = tuple(sorted(os.sched_getaffinity(0)))[:2]
    if len(cpus) < 2:
        pytest.skip("one CPU")

    def tasks(units: Sequence[int]) -> list[partial[None]]:
        # The first needs a tenth of the second's time.
        return [partial(time.sleep, units[0] * 1e-3), partial(time.sleep, units[1] * 1e-2)]

    plan = NORMAL._replace(run_s=0.1, repeats=1, patient=False)
    rate = measure_rate(cpus, plan, Job(tasks, work=2.0, first_units=1))
    assert not rate.fair
    assert 0 < rate.best <= 1100, "1000 and 100 a second"


def test_many_threads_run_longer_so_that_their_starts_do_not_count() -> None:
    assert run_seconds(NORMAL, range(2)) == NORMAL.run_s
    assert run_seconds(NORMAL, range(64)) == 4 * NORMAL.run_s


@pytest.mark.parametrize(("limit", "stops"), [(None, False), (2.0, False), (4.0, False), (1.5, True)])
def test_limit_stops_as_many_threads_as_exceed_it(limit: float | None, stops: bool) -> None:
    assert NORMAL._replace(limit=limit).throttles((0, 1)) == stops


def test_throttled_run_counts_by_the_cpu_time_that_it_used() -> None:
    cpus = tuple(sorted(os.sched_getaffinity(0)))[:1]

    def busy(units: int) -> None:
        end = time.thread_time() + units / 1000
        while time.thread_time() < end:
            pass
        time.sleep(units / 500)  # as if stopped: costs time, but no CPU time

    job = Job(lambda units: [partial(busy, n) for n in units], work=1.0, first_units=1)
    plan = NORMAL._replace(run_s=0.02, repeats=2, patient=False)
    # 1000 units a CPU second, of which a fifth is granted; by the clock it would be less than 1000 / 3.
    assert measure_rate(cpus, plan._replace(limit=0.2), job).best == pytest.approx(200, rel=0.1)
    assert measure_rate(cpus, plan, job).best < 340


def test_disturbed_runs_get_a_second_chance_and_count_all_the_same() -> None:
    rates = iter([50.0, 80.0, 60.0, 100.0, 99.0, 98.0])
    assert repeat(3, lambda: next(rates)) == Rate(100.0, 89.0, 0.5, runs=6)


@pytest.mark.parametrize("seconds_per_unit", [1e-9, 3e-5, 0.02, 0.09])
def test_units_fill_the_planned_time(seconds_per_unit: float) -> None:
    units = units_for(0.1, 1, lambda count: count * seconds_per_unit)
    assert units == pytest.approx(0.1 / seconds_per_unit, abs=0.5)


def test_unit_longer_than_a_run_is_done_once() -> None:
    assert units_for(0.1, 1, lambda count: count * 7.0) == 1


def test_warm_up_lasts_at_least_half_a_run() -> None:
    lasted = []

    def seconds(count: int) -> float:
        lasted.append(count * 1e-6)
        return lasted[-1]

    units_for(0.1, 1, seconds)
    assert lasted[-1] >= 0.05


def test_method_text_says_how_many_threads_and_runs() -> None:
    rate = Rate(1.0, 0.9, 0.3, runs=14)
    assert describe_effort((0, 1), NODE, NORMAL, rate).startswith(
        "2 threads, one on each CPU; best of 14 runs of about 0.03 s"
    )
    assert describe_effort((3,), NODE, NORMAL, rate).startswith("1 thread on 1 CPU; ")


def test_method_text_says_of_how_many_cpus_a_part_was_used_and_that_they_differ() -> None:
    rate, part = Rate(1.0, 0.9, 0.3, runs=14, fair=False), NODE._replace(node_cpus=128)
    assert describe_effort((0, 1), part, NORMAL, rate).startswith(
        "2 threads on 2 of 128 CPUs, which differ: work in proportion to their speeds; best of"
    )
    assert describe_effort((0,), part, NORMAL, rate._replace(fair=True)).startswith(
        "1 thread on 1 of 128 CPUs; best of"
    )
