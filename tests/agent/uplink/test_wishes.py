"""What a busy server asks for, and what batches tell of it."""

from __future__ import annotations

import pytest
from roofline_agent.schedule import Task
from roofline_agent.uplink.wishes import LONGEST_NS, SHORTEST_NS, Wishes

SECOND = 1_000_000_000
BUSY = "the server was busy"


@pytest.fixture
def sampling() -> Task:
    return Task(SECOND, 0)


@pytest.fixture
def wishes(sampling: Task) -> Wishes:
    return Wishes(sampling)


def test_wish_is_told_in_each_batch_while_it_holds(wishes: Wishes) -> None:
    wishes.change(4 * SECOND, BUSY, fewer=2)
    for _ in range(2):
        assert wishes.take_facts() == [f"sampling.slowed=4 s: {BUSY}", f"kernels.fewer=2: {BUSY}"]
    wishes.change(0, "")
    assert wishes.take_facts() == [f"sampling.slowed=4 s: {BUSY}", f"kernels.fewer=2: {BUSY}"]
    assert wishes.take_facts() == []


def test_wishes_of_one_batch_are_all_told(wishes: Wishes) -> None:
    for seconds in (2, 4, 2):
        wishes.change(seconds * SECOND, BUSY)
    assert wishes.take_facts() == [f"sampling.slowed={n} s: {BUSY}" for n in (2, 4)]


def test_interval_is_followed_and_given_up(wishes: Wishes, sampling: Task) -> None:
    wishes.change(4 * SECOND, BUSY)
    assert sampling.period_ns == 4 * SECOND
    wishes.change(0, BUSY)
    assert sampling.period_ns == wishes.own_interval_ns == SECOND
    assert wishes.take_facts() == [f"sampling.slowed=4 s: {BUSY}"]


@pytest.mark.parametrize(("asked_ns", "taken_ns"), [(1, SHORTEST_NS), (10**15, LONGEST_NS)])
def test_wish_beyond_reason_is_bounded(wishes: Wishes, sampling: Task, asked_ns: int, taken_ns: int) -> None:
    wishes.change(asked_ns, "why\x1b" * 100, fewer=10**6)
    assert (sampling.period_ns, wishes.fewer) == (taken_ns, 16)
    assert all("\x1b" not in text and len(text) < 140 for text in wishes.take_facts())
