"""What a busy server asks for, and what batches tell of it."""

from __future__ import annotations

import pytest
from roofline_agent.schedule import Task
from roofline_agent.uplink.sampling_request import LONGEST_NS, SHORTEST_NS, SamplingRequest

SECOND = 1_000_000_000
BUSY = "the server was busy"


@pytest.fixture
def sampling() -> Task:
    return Task(SECOND, 0)


@pytest.fixture
def asked(sampling: Task) -> SamplingRequest:
    return SamplingRequest(sampling)


def test_request_is_told_in_each_batch_while_it_holds(asked: SamplingRequest) -> None:
    asked.change(4 * SECOND, BUSY, fewer=2)
    for _ in range(2):
        assert asked.take_facts() == [f"sampling.slowed=4 s: {BUSY}", f"kernels.fewer=2: {BUSY}"]
    asked.change(0, "")
    assert asked.take_facts() == [f"sampling.slowed=4 s: {BUSY}", f"kernels.fewer=2: {BUSY}"]
    assert asked.take_facts() == []


def test_requests_of_one_batch_are_all_told(asked: SamplingRequest) -> None:
    for seconds in (2, 4, 2):
        asked.change(seconds * SECOND, BUSY)
    assert asked.take_facts() == [f"sampling.slowed={n} s: {BUSY}" for n in (2, 4)]


def test_interval_is_followed_and_given_up(asked: SamplingRequest, sampling: Task) -> None:
    asked.change(4 * SECOND, BUSY)
    assert sampling.period_ns == 4 * SECOND
    asked.change(0, BUSY)
    assert sampling.period_ns == asked.own_interval_ns == SECOND
    assert asked.take_facts() == [f"sampling.slowed=4 s: {BUSY}"]


@pytest.mark.parametrize(("asked_ns", "taken_ns"), [(1, SHORTEST_NS), (10**15, LONGEST_NS)])
def test_request_beyond_reason_is_bounded(
    asked: SamplingRequest, sampling: Task, asked_ns: int, taken_ns: int
) -> None:
    asked.change(asked_ns, "why\x1b" * 100, fewer=10**6)
    assert (sampling.period_ns, asked.fewer) == (taken_ns, 16)
    assert all("\x1b" not in text and len(text) < 140 for text in asked.take_facts())
