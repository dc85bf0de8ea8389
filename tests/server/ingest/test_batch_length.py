"""How long agents are asked to gather: the decision, and that acks say it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.ingest.batch_control import LATELY, BatchControl
from roofline_server.ingest.batch_length import (
    CALM_S,
    HOLD_S,
    LENGTHS_S,
    SETTLE_S,
    BatchLoad,
    gathered_s,
    least_level,
    next_length,
)
from roofline_server.ingest.hysteresis import LoadLevel

from ..builders import rank, training
from ..services import serving


def holds(loads: Iterable[BatchLoad]) -> Iterator[LoadLevel]:
    length = LoadLevel()
    for at, one in enumerate(loads):
        length = next_length(length, one, float(at))
        yield length


def changes(*phases: tuple[float, BatchLoad]) -> list[tuple[int, float]]:
    """(second, new seconds) where phases of so many seconds of a load follow each other."""
    loads = [one for seconds, one in phases for _ in range(int(seconds))]
    found = [0.0, *(LENGTHS_S[length.level] for length in holds(loads))]
    return [(at, new) for at, (old, new) in enumerate(pairwise(found)) if old != new]


@pytest.mark.parametrize(
    ("streams", "expected"),
    [(0, 0.0), (1000, 0.0), (1001, 2.0), (2000, 2.0), (2001, 3.0), (4000, 4.0), (8000, 8.0), (9000, 8.0)],
)
def test_agents_together_send_so_many_batches_a_second_at_most(streams: int, expected: float) -> None:
    assert LENGTHS_S[least_level(streams)] == expected


def test_streams_are_enough_to_ask_at_once_and_calm_must_last() -> None:
    many, few = BatchLoad(3000, 0.3), BatchLoad(100, 0.1)
    assert changes((20, many), (100, few)) == [(0, 3.0), (20 + CALM_S, 2.0), (21 + 2 * CALM_S, 0.0)]
    assert changes((20, many), (CALM_S - 1, few), (1, many), (CALM_S - 1, few)) == [(0, 3.0)]


def test_streams_that_have_just_come_count_twice() -> None:
    new = BatchLoad(2000, 0.2, newcomers=2000)
    assert changes((15, new), (100, BatchLoad(2000, 0.2))) == [(0, 4.0), (15 + CALM_S, 3.0), (76, 2.0)]


def test_busy_server_asks_for_a_step_more_at_a_time() -> None:
    for busy in (BatchLoad(600, 0.8), BatchLoad(600, 0.3, lag_s=0.5)):
        assert changes((HOLD_S, busy), (100, BatchLoad(600, 0.3))) == []  # too short
        assert changes((11, busy)) == [(HOLD_S, 2.0), (HOLD_S + SETTLE_S, 3.0)]
        assert changes((5, busy), (200, BatchLoad(600, 0.3, lag_s=0.15))) == [(HOLD_S, 2.0)]  # and not back
        assert changes((5, busy), (100, BatchLoad(600, 0.2))) == [(HOLD_S, 2.0), (5 + CALM_S, 0.0)]


def test_step_back_is_made_where_its_load_is_little() -> None:
    busy = BatchLoad(600, 0.8)
    assert changes((5, busy), (200, BatchLoad(600, 0.21))) == [(HOLD_S, 2.0)]  # twice that is too much
    assert changes((5, busy), (200, BatchLoad(600, 0.2))) == [(HOLD_S, 2.0), (5 + CALM_S, 0.0)]


def test_busy_server_with_few_batches_has_other_reasons() -> None:
    assert changes((100, BatchLoad(20, 0.9, lag_s=3.0))) == []


@pytest.mark.parametrize("cost_s", [0.0002, 0.0006, 0.001, 0.002])
@pytest.mark.parametrize("streams", [500, 2000, 8000])
def test_agents_that_follow_leave_time_and_the_wish_settles(streams: int, cost_s: float) -> None:
    """Batches and, as on a real server, something that does not become less with them."""

    def following(seconds: int) -> Iterator[tuple[int, float]]:
        length = LoadLevel()
        for at in range(seconds):
            share = min(1.0, 0.1 + cost_s * streams / gathered_s(length.level))
            length = next_length(length, BatchLoad(streams, share), float(at))
            yield length.level, share

    found = list(following(400))
    (level,) = {level for level, _ in found[-200:]}
    assert found[-1][1] < 0.6 or level == len(LENGTHS_S) - 1
    assert level == least_level(streams) or found[-1][1] * gathered_s(level) > 0.4 * gathered_s(level - 1)


@given(
    st.lists(
        st.builds(
            BatchLoad,
            st.integers(0, 10_000),
            st.floats(0, 1.5),
            st.sampled_from([0.0, 0.15, 0.5, 3.0]),
        ),
        max_size=150,
    )
)
def test_less_is_asked_only_after_calm_and_more_only_as_needed(loads: list[BatchLoad]) -> None:
    found = [LoadLevel(), *holds(loads)]
    for (at, old), new in zip(enumerate(found), found[1:], strict=False):
        assert least_level(loads[at].weight) <= new.level < len(LENGTHS_S)
        if new.level < old.level:
            assert at - old.changed_s >= CALM_S and new.level == old.level - 1
        if new.level > old.level + 1:
            assert new.level == least_level(loads[at].weight)


class Told:
    """A clock and CPU time that a test sets."""

    def __init__(self) -> None:
        self.now_s = self.cpu_s = 0.0

    def control(self, server: Any) -> BatchControl:
        return BatchControl(server.committer, lambda: self.now_s, lambda: self.cpu_s)


def test_welcome_and_acks_say_it_as_long_as_it_holds(tmp_path: Path) -> None:
    async def work() -> None:
        told = Told()
        async with serving(tmp_path) as server:
            control, counts = told.control(server), server.committer.counts
            sent = training([rank()], batches=3)
            async with server.agent() as agent:
                assert agent.all("welcome")[0].hold_ms == 0
                counts.streams["others", 99] = 4000
                control.look(0.0)
                assert server.committer.hold_s == 8.0  # all of them have just come
                for _ in range(2 * LATELY + int(CALM_S)):
                    told.now_s += 1
                    control.look(0.0)
                assert server.committer.hold_s == 6.0
                await agent.send(sent[0])
                await agent.until(lambda: agent.all("ack"))
                assert agent.all("ack")[0].hold_ms == 6000
                async with server.agent("agent-b") as other:
                    assert other.all("welcome")[0].hold_ms == 6000
                counts.streams["others", 99] = 0
                while server.committer.hold_s:
                    told.now_s += 1
                    control.look(0.0)
                await agent.send(sent[1])
                await agent.until(lambda: len(agent.all("ack")) == 2)
                assert agent.all("ack")[1].hold_ms == 0

    asyncio.run(work())


def test_time_of_batches_is_that_of_the_event_loop_and_of_commits(tmp_path: Path) -> None:
    async def work() -> None:
        told = Told()
        async with serving(tmp_path) as server:
            control, counts = told.control(server), server.committer.counts
            counts.streams["others", 99] = 600
            for second in range(1, 6):
                told.now_s, told.cpu_s, counts.commit_cpu_s = second, 0.5 * second, 0.25 * second
                control.look(0.0)
            assert server.committer.hold_s == 2.0
            assert control.length.high_since_s == 1.0

    asyncio.run(work())
