from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline.v1 import ingest_pb2 as pb
from roofline_server.ingest.commands import Agents, Link
from roofline_server.ingest.hysteresis import LoadLevel
from roofline_server.ingest.sampling_control import MOST_AT_ONCE, REASON, SamplingControl
from roofline_server.ingest.sampling_level import (
    CALM_S,
    FACTORS,
    HOLD_S,
    MOST_NS,
    SETTLE_S,
    ServerLoad,
    interval_ns,
    next_level,
)

from ..builders import S
from ..services import serving

CALM, BUSY = ServerLoad(), ServerLoad(is_full=True)
BETWEEN = ServerLoad(queue=0.3)


def levels(loads: Iterable[ServerLoad], step_s: float = 1.0) -> Iterator[int]:
    sampling = LoadLevel()
    for at, load in enumerate(loads):
        sampling = next_level(sampling, load, at * step_s)
        yield sampling.level


def changes(*phases: tuple[float, ServerLoad]) -> list[tuple[int, int]]:
    """(second, new level) where phases of so many seconds of a load follow each other."""
    loads = [load for seconds, load in phases for _ in range(int(seconds))]
    found = list(levels(loads))
    return [(at, new) for at, (old, new) in enumerate(pairwise([0, *found])) if old != new]


@pytest.mark.parametrize(
    ("load", "is_high", "is_low"),
    [
        (CALM, False, True),
        (BUSY, True, False),
        (ServerLoad(queue=0.5), True, False),
        (ServerLoad(queue=0.49), False, False),
        (ServerLoad(queue=0.1), False, True),
        (ServerLoad(unsealed=0.75), True, False),
        (ServerLoad(unsealed=0.6), False, False),
        (ServerLoad(unsealed=0.5), False, True),
        (ServerLoad(lag_s=1.0), True, False),
        (ServerLoad(lag_s=0.5), False, False),
    ],
)
def test_what_is_much_and_what_is_little(load: ServerLoad, is_high: bool, is_low: bool) -> None:
    assert (load.is_high, load.is_low) == (is_high, is_low)


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ([(100, CALM)], []),
        ([(HOLD_S, BUSY), (100, CALM)], []),  # too short
        ([(5, BUSY)], [(2, 1)]),
        ([(100, BUSY)], [(2, 1), (2 + SETTLE_S, 2)]),  # and no further
        ([(5, BUSY), (100, CALM)], [(2, 1), (5 + CALM_S, 0)]),
        ([(20, BUSY), (100, CALM)], [(2, 1), (12, 2), (20 + CALM_S, 1), (21 + 2 * CALM_S, 0)]),
        ([(5, BUSY), (1000, BETWEEN)], [(2, 1)]),  # neither more nor back
        ([(5, BUSY), (CALM_S - 1, CALM), (1, BETWEEN), (20, CALM)], [(2, 1)]),  # calm must last
    ],
)
def test_one_step_at_a_time_and_back_only_after_calm(
    phases: list[tuple[float, ServerLoad]], expected: list[tuple[float, int]]
) -> None:
    assert changes(*phases) == expected


# For so many seconds each: single ones change nothing.
PHASES = st.lists(st.tuples(st.sampled_from([CALM, BUSY, BETWEEN]), st.integers(1, 50)), max_size=6)


@given(PHASES)
def test_levels_never_jump_and_never_flap(phases: list[tuple[ServerLoad, int]]) -> None:
    found = [0, *levels([load for load, seconds in phases for _ in range(seconds)])]
    assert all(abs(new - old) <= 1 for old, new in pairwise(found))
    assert set(found) <= set(range(len(FACTORS)))
    changed = [at for at, (old, new) in enumerate(pairwise(found)) if old != new]
    assert all(later - at >= min(SETTLE_S, CALM_S) for at, later in pairwise(changed))


@pytest.mark.parametrize(
    ("own_ns", "level", "expected"),
    [
        (S, 0, S),
        (S, 1, 2 * S),
        (S, 2, 4 * S),
        (4 * S, 2, MOST_NS),
        (30 * S, 2, 30 * S),  # never more often than was asked for
    ],
)
def test_intervals_grow_to_ten_seconds_at_most(own_ns: int, level: int, expected: int) -> None:
    assert interval_ns(own_ns, level) == expected


class Node:
    """An agent's end of its commands."""

    def __init__(self, agents: Agents, own_ns: int = S, now_ns: int = S, host: str = "a") -> None:
        self.asked: list[tuple[int, str]] = []
        self.fewer: list[int] = []
        hello = pb.Hello(own_interval_ns=own_ns, interval_ns=now_ns, machine={"host": host})
        self.link = Link(hello, self._take)
        agents.add(self.link)

    def _take(self, message: Any) -> None:
        asked = message.command.set_interval
        self.asked.append((asked.interval_ns, asked.reason))
        self.fewer.append(asked.kernels)


class Busy:
    """A server whose load a test sets."""

    def __init__(self) -> None:
        self.agents, self.load, self.now_s = Agents(), CALM, 0.0
        self.control = SamplingControl(self.agents, lambda lag_s: self.load, lambda: self.now_s)

    def look(self, seconds: float = 1) -> None:
        for _ in range(int(seconds)):
            self.now_s += 1
            self.control.look(0.0)


def test_agents_are_asked_once_for_each_change() -> None:
    server = Busy()
    node = Node(server.agents)
    server.look(5)
    assert node.asked == []
    server.load = BUSY
    server.look(30)
    assert node.asked == [(2 * S, REASON), (4 * S, REASON)]
    server.load = CALM
    server.look(100)
    assert node.asked[2:] == [(2 * S, REASON), (0, "")]
    assert node.fewer == [2, 4, 2, 1]
    assert server.control.changes == 4


def test_agent_that_samples_seldom_is_asked_for_kernels_of_fewer_steps_alone() -> None:
    server = Busy()
    node = Node(server.agents, own_ns=30 * S, now_ns=30 * S)
    server.load = BUSY
    server.look(30)
    server.load = CALM
    server.look(100)
    assert (node.asked, node.fewer) == ([(0, REASON), (0, REASON), (0, REASON), (0, "")], [2, 4, 2, 1])


def test_agent_that_comes_while_the_server_is_busy_is_asked_too() -> None:
    server = Busy()
    server.load = BUSY
    server.look(5)
    node = Node(server.agents)
    server.look()
    assert node.asked == [(2 * S, REASON)]


def test_agent_that_was_slowed_by_a_server_of_before_is_let_go() -> None:
    server = Busy()
    node = Node(server.agents, now_ns=4 * S)
    server.look(3)
    assert node.asked == [(0, "")]


def test_agent_that_does_not_say_what_is_its_own_is_left_alone() -> None:
    server = Busy()
    node = Node(server.agents, own_ns=0)
    server.load = BUSY
    server.look(60)
    assert node.asked == []


def test_many_agents_are_asked_some_at_a_time() -> None:
    server = Busy()
    nodes = [Node(server.agents, host=f"host{n}") for n in range(2 * MOST_AT_ONCE + 1)]
    server.load = BUSY
    asked = []
    for _ in range(6):
        server.look()
        asked.append(sum(bool(node.asked) for node in nodes))
    assert asked == [0, 0, MOST_AT_ONCE, 2 * MOST_AT_ONCE, len(nodes), len(nodes)]


def test_load_is_that_of_the_committer(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            assert server.committer.load(0.5) == ServerLoad(False, 0.0, 0.0, 0.5)
            server.committer.is_full = True
            assert server.committer.load(0.0).is_high

    asyncio.run(work())
