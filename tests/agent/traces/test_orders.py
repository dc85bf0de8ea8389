"""What becomes of traces that the server asks for, at the agent of the node."""

from __future__ import annotations

import pytest
from roofline_agent.records import Rank
from roofline_agent.traces import orders
from roofline_agent.traces.orders import TraceOrder, TraceOrders, TraceOutcome

RANK = Rank("42", "worker", 0, 77, 5)


class Node:
    """An agent with wrappers: how many are asked, None where there is no such rank."""

    def __init__(self, wrappers: int | None = 1) -> None:
        self.now = 0.0
        self.orders = TraceOrders(lambda: self.now)
        self.wrappers = wrappers
        self.sent: list[tuple[int, int, int, int]] = []
        self.outcomes: list[TraceOutcome] = []

    def order(self, steps: int = 3) -> None:
        self.orders.add(TraceOrder(RANK.pid, RANK.start_ns, steps, self.outcomes.append, 38_000))
        self.orders.send(self._ask)

    def _ask(self, *order: int) -> int | None:
        self.sent.append(order)  # type: ignore[arg-type]
        return self.wrappers

    @property
    def last(self) -> TraceOutcome:
        return self.outcomes[-1]


def test_states_are_passed_on_until_it_is_recorded() -> None:
    node = Node()
    node.order()
    assert node.sent == [(77, 5, 3, 38_000)]
    for state in ("asked: the next 3 steps", "reading: steps 5-7", "recorded: steps 5-7, 10 operators"):
        node.orders.reported(RANK, state)
    assert [one.is_over for one in node.outcomes] == [False, False, True]
    assert node.last == TraceOutcome("recorded: steps 5-7, 10 operators", True, True)
    assert node.orders.idle


@pytest.mark.parametrize(
    "state", ["not recorded: steps 5-7: the disk is full", "refused: a trace is not finished"]
)
def test_failure_ends_it(state: str) -> None:
    node = Node()
    node.order()
    node.orders.reported(RANK, state)
    assert node.last == TraceOutcome(state, True, False)


@pytest.mark.parametrize(("wrappers", "why"), [(None, orders.GONE), (0, orders.UNWRAPPED)])
def test_rank_that_cannot_be_asked(wrappers: int | None, why: str) -> None:
    node = Node(wrappers)
    node.order()
    assert node.last == TraceOutcome(why, True)


def test_wrapper_that_does_not_answer_or_ends() -> None:
    node = Node()
    node.order()
    node.now = orders.ANSWER_S + 1
    node.orders.give_up_late()
    assert node.last.text == orders.SILENT
    node.order()
    node.orders.reported(RANK, "asked: the next 3 steps")
    node.now += orders.ANSWER_S + 1
    node.orders.give_up_late()
    assert not node.last.is_over, "steps may be long"
    node.orders.left(RANK)
    assert node.last == TraceOutcome(orders.LEFT, True)


def test_second_trace_of_a_rank_waits_for_the_first() -> None:
    node = Node()
    node.order()
    node.order()
    assert "another trace" in node.last.text
    assert len(node.sent) == 1


@pytest.mark.parametrize("steps", [0, 21])
def test_number_of_steps_is_bounded(steps: int) -> None:
    node = Node()
    node.order(steps)
    assert node.last.is_over
    assert not node.sent


def test_states_of_traces_that_nobody_asked_for_are_passed_over() -> None:
    node = Node()
    node.orders.reported(RANK, "recorded: steps 1-2")
    assert node.outcomes == []
