"""How many updates the calls of a function make, by a counter that is read at few of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.hooks.tf.steps import Steps
from roofline_agent.hooks.tf.updates import (
    MOST_AWAITED,
    UpdateCounter,
    UpdatesElsewhere,
    UpdatesOfCalls,
    _Counters,
)


class Optimizer:
    """One that counts."""

    def __init__(self) -> None:
        self._iterations: Any = Variable()


class Variable:
    value = readings = 0
    handle = object()

    def numpy(self) -> int:
        self.readings += 1
        return self.value


@pytest.fixture
def optimizer() -> Optimizer:
    return Optimizer()


def made(optimizer: Optimizer, calls: list[int], **options: Any) -> list[int]:
    """What is taken for the updates of calls that make so many."""
    asked = {"before": 0, "static": 1, "varies": True, **options}
    updates, found = UpdatesOfCalls(UpdateCounter(optimizer), **asked), []
    for count in calls:
        optimizer._iterations.value += count
        found.append(updates.made(10**10))
    return found


def test_calls_of_several_updates(optimizer: Optimizer) -> None:
    assert made(optimizer, [5] * 50) == [5] * 50


def test_number_that_is_in_the_graph_is_read_ever_more_rarely(optimizer: Optimizer) -> None:
    assert made(optimizer, [5] * 1000, static=5, varies=False) == [5] * 1000
    assert optimizer._iterations.readings <= 11


def test_number_that_changes_is_found(optimizer: Optimizer) -> None:
    calls = [5] * 20 + [3] + [5] * 20
    found = made(optimizer, calls)
    assert found == calls, "where a reading costs nothing beside the call"


@given(st.lists(st.sampled_from([0, 1, 1, 1, 5]), min_size=1, max_size=60), st.integers(10, 10**10))
def test_updates_add_up_to_the_counter_at_each_reading(calls: list[int], call_ns: int) -> None:
    optimizer = Optimizer()
    updates, total, read = UpdatesOfCalls(UpdateCounter(optimizer), 0, 1, True), 0, 0
    for count in calls:
        optimizer._iterations.value += count
        total += updates.made(call_ns)
        if optimizer._iterations.readings > read:
            read = optimizer._iterations.readings
            # Those that were taken for made too early are not taken back, but count no second time.
            assert total >= optimizer._iterations.value


def test_gradients_that_are_added_up_make_one_update(optimizer: Optimizer) -> None:
    calls = [0, 0, 0, 1] * 25
    assert made(optimizer, calls) == calls


def test_reading_that_waits_long_is_rare(optimizer: Optimizer) -> None:
    updates = UpdatesOfCalls(UpdateCounter(optimizer), 0, 1, True)
    for _ in range(5000):
        optimizer._iterations.value += 2
        assert updates.made(1) == 2
    assert optimizer._iterations.readings < 20


def test_counter_that_was_restored_counts_from_there(optimizer: Optimizer) -> None:
    optimizer._iterations.value = 1000
    assert made(optimizer, [5] * 9, before=1000) == [5] * 9


def test_updates_of_another_function_are_not_counted(optimizer: Optimizer) -> None:
    counter = UpdateCounter(optimizer)
    one, two = UpdatesOfCalls(counter, 0, 1, True), UpdatesOfCalls(counter, 0, 1, True)
    found = []
    for turn in range(30):
        function, count = (one, 5) if turn % 3 else (two, 2)
        optimizer._iterations.value += count
        found.append((function is one, function.made(10**10)))
    assert {made for first, made in found[6:] if first} == {5}
    assert {made for first, made in found[6:] if not first} == {2}


def test_without_a_counter_the_graph_decides() -> None:
    assert [UpdatesOfCalls(None, 0, 4, False).made(1) for _ in range(3)] == [4] * 3


def test_counter_that_cannot_be_read_any_more_leaves_the_graph(optimizer: Optimizer) -> None:
    updates = UpdatesOfCalls(UpdateCounter(optimizer), 0, 1, True)
    optimizer._iterations = None
    assert [updates.made(1) for _ in range(3)] == [1] * 3


def test_replicas_and_wrapped_variables_are_read(optimizer: Optimizer) -> None:
    inner = optimizer._iterations
    inner.value = 7

    class Wrapped:
        _value = inner

    class Replicated:
        _values = (inner, object())

    for wrapped in (Wrapped(), Replicated()):
        optimizer._iterations = wrapped
        assert UpdateCounter(optimizer).read() == 7


def test_counters_are_those_that_the_graph_uses(optimizer: Optimizer) -> None:
    class Graph:
        captures = ((Variable.handle, "placeholder"),)

    class Other:
        captures = ((object(), "placeholder"),)

    counters = _Counters()
    counters.add(optimizer)
    gone = Optimizer()
    counters.add(gone)
    del gone
    assert [one.optimizer() for one in counters.alive()] == [optimizer]
    assert [one.optimizer() for one in counters.captured(Graph())] == [optimizer]
    assert counters.captured(Other()) == []
    assert list(counters.values().values()) == [0]


def test_update_elsewhere_is_awaited_for_some_calls_and_longer_once_there_was_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = Steps()
    monkeypatch.setattr("roofline_agent.hooks.tf.updates.steps", chain)
    updates = UpdatesElsewhere(2)
    assert [updates.made(1) for _ in range(20)] == [0] * MOST_AWAITED + [2] * (20 - MOST_AWAITED)
    chain.updates_elsewhere += 1
    assert {updates.made(1) for _ in range(200)} == {0}
