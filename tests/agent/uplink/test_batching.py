"""When batches are closed: by the agent's own rules, and longer where a server asks for that."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.uplink.batching import (
    BATCH_NS,
    CALM_AFTER_NS,
    CALM_BATCH_NS,
    MOST_HELD_BYTES,
    MOST_HELD_NS,
    Batching,
    held_period_ns,
    own_period_ns,
)

S = 1_000_000_000


class Agent:
    """One that closes batches as its rules say, on a clock of the test."""

    def __init__(self, chance: Callable[[], float] = lambda: 0.5) -> None:
        self.batching = Batching(0, chance)
        self.now_ns = 0
        self.closed: list[int] = []
        self.bytes_per_s = 8_000

    def run(self, seconds: float) -> list[int]:
        """When it closes batches meanwhile."""
        end_ns, before = self.now_ns + int(seconds * S), len(self.closed)
        while self.now_ns < end_ns:
            self.now_ns = min(end_ns, self.batching.next_ns)
            if self.now_ns < end_ns and self.batching.due(self.now_ns):
                since_ns = self.now_ns - (self.closed[-1] if self.closed else 0)
                self.closed.append(self.now_ns)
                self.batching.closed(self.now_ns, S, self.bytes_per_s * since_ns // S)
        return self.closed[before:]

    def periods_s(self, seconds: float) -> list[float]:
        """Between the batches that it closes meanwhile."""
        return [round((b - a) / S, 1) for a, b in pairwise(self.run(seconds))]


def test_batches_are_longer_while_no_rank_comes_or_goes_and_nobody_wants_fine_samples() -> None:
    assert own_period_ns(CALM_AFTER_NS + 1, BATCH_NS) == CALM_BATCH_NS
    assert own_period_ns(CALM_AFTER_NS, BATCH_NS) == BATCH_NS
    assert own_period_ns(CALM_AFTER_NS + 1, BATCH_NS // 10) == BATCH_NS


@pytest.mark.parametrize(
    ("own_ns", "asked_ns", "bytes_per_s", "expected"),
    [
        (S, 0, 1e4, S),
        (S, 4 * S, 1e4, 4 * S),
        (CALM_BATCH_NS, S, 1e4, CALM_BATCH_NS),  # never shorter than its own
        (S, 3600 * S, 1e4, MOST_HELD_NS),
        (S, 4 * S, MOST_HELD_BYTES / 2, 2 * S),  # who has much to send gathers for less time
        (S, 4 * S, 10 * MOST_HELD_BYTES, S),
        (S, 4 * S, 0.0, 4 * S),
    ],
)
def test_a_server_makes_batches_longer_within_limits(
    own_ns: int, asked_ns: int, bytes_per_s: float, expected: int
) -> None:
    assert held_period_ns(own_ns, asked_ns, bytes_per_s) == expected


def test_agent_follows_what_is_asked_and_goes_back() -> None:
    agent = Agent()
    assert set(agent.periods_s(10)) == {1.0}
    agent.batching.hold_ns = 4 * S
    agent.run(8)
    assert set(agent.periods_s(20)) == {4.0}
    assert agent.batching.held_ns == 4 * S
    agent.batching.hold_ns = 0
    agent.run(8)
    assert set(agent.periods_s(20)) == {1.5}  # no rank has come for long
    assert agent.batching.held_ns == 0


def test_nothing_is_said_of_a_wish_that_changes_nothing() -> None:
    agent = Agent()
    agent.run(40)
    agent.batching.hold_ns = S
    agent.run(10)
    assert agent.batching.held_ns == 0


def sendings(agents: list[Agent], seconds: float) -> Iterator[int]:
    for agent in agents:
        yield from agent.run(seconds)


def test_agents_that_start_or_are_asked_at_once_do_not_send_at_once() -> None:
    """Of 400 agents asked for 4 s each tenth of a second has 10 batches on average; in step, one had 400."""
    chance = random.Random(1)
    agents = [Agent(chance.random) for _ in range(400)]
    first = [agent.run(1.2)[0] for agent in agents]
    assert most_in_a_tenth(first) < 3 * 40
    for agent in agents:
        agent.batching.hold_ns = 4 * S
        agent.run(10)
    assert most_in_a_tenth(list(sendings(agents, 8))) < 3 * 10


def most_in_a_tenth(moments: list[int]) -> int:
    tenths = [10 * moment // S for moment in moments]
    return max(map(tenths.count, set(tenths)))


def test_ranks_that_come_or_go_are_reported_within_a_second() -> None:
    agent = Agent()
    agent.batching.hold_ns = 8 * S
    agent.run(20)
    agent.run(1)
    agent.batching.ranks_changed(agent.now_ns)
    assert agent.batching.next_ns <= agent.now_ns + S
    assert len(agent.run(1)) == 1


def test_batch_that_is_half_full_is_closed_but_no_more_often_than_ever() -> None:
    agent = Agent()
    agent.batching.hold_ns = 8 * S
    last = agent.run(30)[-1]
    for _ in range(100):
        agent.batching.half_full()
        agent.run(0.1)
    periods = [round((b - a) / S, 1) for a, b in pairwise([last, *(m for m in agent.closed if m > last)])]
    assert len(periods) >= 8 and set(periods[1:]) == {1.0}


def test_wish_that_changes_all_the_time_keeps_no_batch_open_for_ever() -> None:
    agent = Agent(lambda: 1.0)
    for asked_s in (8, 6, 8, 6, 8, 6):
        agent.batching.hold_ns = asked_s * S
        agent.run(5)
    assert max(b - a for a, b in pairwise([0, *agent.closed])) <= MOST_HELD_NS


@given(
    st.lists(st.tuples(st.integers(0, 12), st.floats(0, 1), st.booleans()), min_size=1, max_size=20),
    st.integers(0, 2**24),
)
def test_no_batch_is_ever_longer_than_the_limit(
    phases: list[tuple[int, float, bool]], bytes_per_s: int
) -> None:
    chances = iter([0.5, *(chance for _, chance, _ in phases for _ in range(20))])
    agent = Agent(lambda: next(chances))
    agent.bytes_per_s = bytes_per_s
    for asked_s, _, changes in phases:
        agent.batching.hold_ns = asked_s * S
        if changes:
            agent.batching.ranks_changed(agent.now_ns)
        agent.run(3)
    longest = max((b - a for a, b in pairwise([0, *agent.closed])), default=0)
    assert longest <= (MOST_HELD_NS if any(asked_s for asked_s, _, _ in phases) else CALM_BATCH_NS)
