"""When a source is off, when it is not, and when that cannot be known."""

from __future__ import annotations

import pytest
from roofline_agent.validate.judging import Observation, judge, power
from roofline_agent.validate.validation import Check, Unchecked
from roofline_agent.validate.works import Expectation, KnownWork

ONE = Expectation("perf", "flops.f32.512", "flops", 0.02)
WORK = KnownWork("w", "multiply-adds", (ONE,))


def judged(
    *counted: float, of: Expectation = ONE, done: float = 100.0, unsure: float = 0.0, by_others: float = 0.0
) -> Check:
    seen = [Observation(one, done, done or 100.0, unsure, by_others) for one in counted]
    found = judge(of, WORK, "FLOP", seen, 7)
    assert isinstance(found, Check)
    return found


def test_errors_are_relative_and_signed() -> None:
    found = judged(90, 101, 100)
    assert (found.least, found.median, found.most) == pytest.approx((-0.1, 0.0, 0.01))
    assert (found.runs, found.done, found.time_ns, found.source) == (3, 100, 7, "perf")


def test_median_decides_and_not_a_single_disturbed_run() -> None:
    assert not judged(50, 100, 101).is_off
    assert judged(100, 103, 103).is_off
    assert judged(80, 80, 100).is_off


def test_tolerance_itself_is_within() -> None:
    assert not judged(102, of=ONE._replace(tolerance=2 / 100)).is_off
    assert not judged(100, of=ONE._replace(tolerance=0.0)).is_off


def test_lower_bound_may_count_less_but_not_more() -> None:
    bound = ONE._replace(lower_bound=True)
    assert not judged(30, of=bound).is_off
    assert judged(130, of=bound).is_off


def test_of_nothing_the_error_is_relative_to_what_could_have_been_counted() -> None:
    assert judged(1, done=0.0).median == pytest.approx(0.01)
    assert judged(5, done=0.0).is_off


def test_tolerance_grows_by_what_the_truth_is_not_known_to() -> None:
    assert judged(103).is_off
    assert not judged(103, unsure=3.0).is_off
    assert judged(80, unsure=3.0).tolerance == pytest.approx(0.05)
    assert judged(80, unsure=3.0).is_off


def test_where_others_do_half_as_much_nothing_is_known() -> None:
    seen = [
        Observation(100.0, 100.0, 100.0, by_others=60.0),
        Observation(100.0, 100.0, 100.0, by_others=70.0),
    ]
    found = judge(ONE, WORK, "FLOP", seen, 7)
    assert isinstance(found, Unchecked)
    assert found.reason == "multiply-adds: others on this node did 65% as much meanwhile"
    assert isinstance(judge(ONE, WORK, "FLOP", [*seen, *[Observation(1.0, 1.0, 1.0)] * 3], 7), Check)


def test_without_runs_it_is_not_checked_with_the_reason() -> None:
    found = judge(ONE, WORK, "FLOP", [], 7, "no such instruction")
    assert found == Unchecked("perf", "flops.f32.512", "multiply-adds: no such instruction", time_ns=7)


@pytest.mark.parametrize(
    ("busy", "idle", "sockets", "off"),
    [
        (120.0, 40.0, 1, False),
        (0.2, 0.1, 1, True),  # a socket that computes takes more than a watt
        (30.0, 40.0, 1, True),  # and no less than one that idles
        (39.9999, 40.0, 1, False),  # as far as its reading goes
        (1500.0, 40.0, 1, True),
        (1500.0, 40.0, 2, False),
        (1.2e8, 4e7, 1, True),  # microjoules taken for joules
    ],
)
def test_power_is_plausible_or_not(busy: float, idle: float, sockets: int, off: bool) -> None:
    found = judge(ONE._replace(tolerance=0.0), WORK, "J", [power(busy, idle, sockets)], 7)
    assert isinstance(found, Check)
    assert found.is_off == off
