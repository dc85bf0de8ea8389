"""Regular work keeps its beat: a little early with other work, skipped and not made up for when late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.schedule import SLACK_NS, Task

SECOND = 1_000_000_000


def test_due_on_the_beat() -> None:
    task = Task(SECOND, SECOND)
    assert not task.due(SECOND - SLACK_NS - 1)
    assert task.due(SECOND)
    assert task.next_ns == 2 * SECOND
    assert not task.due(SECOND)


def test_nearly_due_is_done_once_and_the_beat_stays() -> None:
    task = Task(SECOND, SECOND)
    assert task.due(SECOND - SLACK_NS)
    assert task.next_ns == 2 * SECOND
    assert not task.due(SECOND)


def test_late_rounds_are_skipped() -> None:
    task = Task(SECOND, SECOND)
    assert task.due(3 * SECOND + 7)
    assert task.next_ns == 4 * SECOND


def test_short_periods_have_less_slack() -> None:
    task = Task(40_000_000, 40_000_000)
    assert not task.due(29_999_999)
    assert task.due(30_000_000)


def test_shorter_period_holds_at_once() -> None:
    task = Task(60 * SECOND, 0)
    task.due(0)
    task.change(SECOND // 10, 0)
    assert task.due(SECOND)


@given(st.integers(1, 10**10), st.lists(st.integers(0, 10**11), min_size=1, max_size=50))
def test_next_is_always_on_the_beat_and_ahead(period: int, times: list[int]) -> None:
    task = Task(period, 0)
    for now in sorted(times):
        task.due(now)
        assert task.next_ns % period == 0
        assert now < task.next_ns <= now + 2 * period
