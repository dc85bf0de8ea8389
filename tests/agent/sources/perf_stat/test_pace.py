"""perf's interval follows the rate at which the source is asked; pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.sources.perf_stat.pace import MIN_INTERVAL_NS, Pace

MS = 1_000_000


def asked(pace: Pace, gaps_ms: list[float]) -> list[bool]:
    now, answers = 5 * MS, [pace.asked(5 * MS)]
    for gap in gaps_ms:
        now += round(gap * MS)
        answers.append(pace.asked(now))
    return answers


@pytest.mark.parametrize("ms", [100, 2000])
def test_same_pace_changes_nothing(ms: int) -> None:
    pace = Pace(ms * MS)
    assert not any(asked(pace, [ms, ms * 1.01, ms * 0.97] * 10))
    assert pace.interval_ms == ms


def test_new_pace_is_taken_up_once_and_as_a_round_number() -> None:
    pace = Pace(1000 * MS)
    answers = asked(pace, [100.3, 99.8, 100.1, 101.0, 99.9, 100.0, 100.2, 100.1])
    assert answers.count(True) == 1
    assert pace.interval_ms == 100


def test_one_late_round_is_no_new_pace() -> None:
    pace = Pace(100 * MS)
    assert not any(asked(pace, [100, 100, 500, 100, 100, 100, 400, 100]))


def test_asked_faster_than_perf_can_print_changes_nothing() -> None:
    pace = Pace(100 * MS)
    assert not any(asked(pace, [2] * 50))
    assert pace.interval_ms == 100


def test_never_faster_than_perf_allows() -> None:
    assert Pace(MS).interval_ns == MIN_INTERVAL_NS


@given(st.lists(st.floats(0.1, 100_000), max_size=40), st.integers(MS, 60_000 * MS))
def test_any_gaps_leave_an_interval_that_perf_allows(gaps: list[float], interval_ns: int) -> None:
    pace = Pace(interval_ns)
    asked(pace, gaps)
    assert MIN_INTERVAL_NS <= pace.interval_ns <= max(interval_ns, 110_000 * MS)
