"""How long agents are asked to gather: the decision, and that acks say it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.ingest.holding import (
    CALM_S,
    HOLD_S,
    HOLDS_S,
    MOST_S,
    MOST_SHARE,
    OWN_S,
    SETTLE_S,
    TYPICAL_S,
    BatchLoad,
    Holding,
    needed_level,
    next_holding,
    share,
)
from roofline_server.ingest.pacing import Pacing

from ..builders import rank, training
from ..services import serving

COST_S = 0.0004  # of a batch


def load(streams: int, cost_s: float = COST_S, lag_s: float = 0.0) -> BatchLoad:
    """A second of so many streams, each of which sends a batch."""
    return BatchLoad(streams, streams, streams * cost_s, lag_s)


def holds(loads: Iterable[BatchLoad]) -> Iterator[Holding]:
    holding = Holding(cost_s=COST_S)
    for at, one in enumerate(loads):
        holding = next_holding(holding, one, float(at))
        yield holding


def changes(*phases: tuple[float, BatchLoad]) -> list[tuple[int, float]]:
    """(second, new seconds) where phases of so many seconds of a load follow each other."""
    loads = [one for seconds, one in phases for _ in range(int(seconds))]
    found = [0.0, *(holding.seconds for holding in holds(loads))]
    return [(at, new) for at, (old, new) in enumerate(pairwise(found)) if old != new]


@pytest.mark.parametrize(
    ("streams", "cost_s", "expected"),
    [
        (0, 0.0004, 0.0),
        (1000, 0.0004, 0.0),  # 0.4 of the time: just so much
        (1001, 0.0004, 2.0),
        (2000, 0.0004, 2.0),
        (2000, 0.0008, 4.0),
        (8192, 0.0004, 8.0),
        (8192, 0.002, 8.0),  # it does not suffice, but there is no more
    ],
)
def test_batches_shall_take_a_part_of_the_time(streams: int, cost_s: float, expected: float) -> None:
    assert HOLDS_S[needed_level(streams, cost_s, MOST_SHARE)] == expected


def test_streams_are_enough_to_ask_at_once_and_calm_must_last() -> None:
    many, few = load(2000), load(100)
    assert changes((20, many), (100, few)) == [(0, 2.0), (20 + CALM_S, 0.0)]
    assert changes((20, many), (CALM_S - 1, few), (1, many), (CALM_S - 1, few)) == [(0, 2.0)]


def test_a_number_of_streams_between_two_levels_changes_nothing() -> None:
    assert changes((20, load(1100)), (200, load(950))) == [(0, 2.0)]


def test_late_event_loop_asks_for_one_step_more_at_a_time() -> None:
    late = load(600, lag_s=0.5)
    assert changes((HOLD_S, late), (100, load(600))) == []  # too short
    assert changes((15, late)) == [(HOLD_S, 2.0), (HOLD_S + SETTLE_S, 3.0)]
    assert changes((5, late), (100, load(600, lag_s=0.15))) == [(HOLD_S, 2.0)]  # neither more nor back
    assert changes((5, late), (100, load(600))) == [(HOLD_S, 2.0), (5 + CALM_S, 0.0)]


def test_late_event_loop_with_few_batches_is_not_their_fault() -> None:
    assert changes((100, load(20, lag_s=3.0))) == []


def test_cost_is_measured_and_bounded() -> None:
    *_, slow = holds([load(1000, 0.0008)] * 30)
    assert slow.cost_s == pytest.approx(0.0008, rel=0.01)
    *_, odd = holds([load(1000, 1.0)] * 30)
    assert odd.cost_s == pytest.approx(MOST_S, rel=0.01)
    *_, few = holds([BatchLoad(5, 2, 1.0)] * 30)  # something else took the time
    assert few.cost_s == COST_S


def test_agents_that_follow_cost_less_and_stay_asked() -> None:
    """The measure is what all would cost, so that asking does not take its own reason away."""

    def following(streams: int, seconds: int) -> Iterator[float]:
        holding = Holding(cost_s=COST_S)
        for at in range(seconds):
            batches = round(streams / max(OWN_S, holding.seconds))
            holding = next_holding(holding, BatchLoad(streams, batches, batches * 0.0006), float(at))
            yield holding.seconds

    found = list(following(2000, 300))
    assert set(found[20:]) == {3.0}


@given(
    st.lists(
        st.builds(
            BatchLoad,
            st.integers(0, 10_000),
            st.integers(0, 10_000),
            st.floats(0, 2),
            st.sampled_from([0.0, 0.15, 0.5, 3.0]),
        ),
        max_size=150,
    )
)
def test_less_is_asked_only_after_calm_and_more_only_as_needed(loads: list[BatchLoad]) -> None:
    found = [Holding(cost_s=COST_S), *holds(loads)]
    for (at, old), new in zip(enumerate(found), found[1:], strict=False):
        assert 0 <= new.level < len(HOLDS_S)
        if new.level < old.level:
            assert at - old.changed_s >= CALM_S
        if new.level > old.level + 1:
            assert share(loads[at].streams, new.cost_s, new.level - 1) > MOST_SHARE


def test_welcome_and_acks_say_it_as_long_as_it_holds(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            pacing = Pacing(server.committer, lambda: clock[0], lambda: 0.0)
            sent = training([rank()], batches=3)
            async with server.agent() as agent:
                assert agent.all("welcome")[0].hold_ms == 0
                pacing.holding = Holding(cost_s=10.0)  # so that one stream is too many
                pacing.look(0.0)
                assert server.committer.hold_s == HOLDS_S[-1]
                await agent.send(sent[0])
                await agent.until(lambda: agent.all("ack"))
                assert agent.all("ack")[0].hold_ms == 8000
                async with server.agent("agent-b") as other:
                    assert other.all("welcome")[0].hold_ms == 8000
                pacing.holding = pacing.holding._replace(cost_s=COST_S)
                for _ in range(int(CALM_S) + 1):
                    pacing.look(0.0)
                    clock[0] += 1
                await agent.send(sent[1])
                await agent.until(lambda: len(agent.all("ack")) == 2)
                assert agent.all("ack")[1].hold_ms == 0

    clock = [0.0]
    asyncio.run(work())


def test_pacing_measures_batches_and_the_time_they_take(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            cpu = [0.0]
            pacing = Pacing(server.committer, lambda: 0.0, lambda: cpu[0])
            counts = server.committer.counts
            counts.batches, counts.commit_cpu_s, cpu[0] = 1000, 0.4, 0.8
            pacing.look(0.0)
            assert pacing.holding.cost_s == pytest.approx(TYPICAL_S + 0.2 * (0.0012 - TYPICAL_S))
            counts.batches, cpu[0] = 2000, 1.2  # since then 0.4 ms each
            before = pacing.holding.cost_s
            pacing.look(0.0)
            assert pacing.holding.cost_s == pytest.approx(before + 0.2 * (0.0004 - before))

    asyncio.run(work())
