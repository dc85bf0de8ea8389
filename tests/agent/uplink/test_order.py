"""What is sent next, of a backlog and of what is new."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.records import Batch, Event, EventKind, Rank
from roofline_agent.uplink.order import FIRST_OLD, SHARE, SLOW_S, WINDOW, Ends, Order, Wanted


class Agent:
    """A spool of numbers alone, and what was sent of it."""

    def __init__(self, backlog: int, in_order_through: int = 0) -> None:
        self.waiting = list(range(1, backlog + 1))
        self.order = Order(0, backlog, in_order_through)
        self.sent: list[int] = []
        self.made = backlog
        self.push()

    def make(self) -> None:
        self.made += 1
        self.waiting.append(self.made)
        self.push()

    def push(self) -> None:
        self._send(self.order.new())
        wanted = self.order.old()
        if self._send(wanted) < wanted.limit:
            self.order.no_more_old()
            self._send(self.order.new())

    def _send(self, wanted: Wanted) -> int:
        found = [one for one in self.waiting if wanted.after < one <= wanted.through][: wanted.limit]
        for one in found:
            self.order.sends(one, 0.0)
        self.sent += found
        return len(found)

    def take(self, one: int, took_s: float = 0.0) -> None:
        """The server has one."""
        assert self.order.arrived([one], took_s) == [one]
        self.waiting.remove(one)
        self.push()


def test_new_batches_go_before_the_backlog() -> None:
    agent = Agent(1000)
    agent.make()
    assert agent.sent == [*range(1, FIRST_OLD + 1), 1001]


def test_backlog_without_any_new_batch_is_sent_whole() -> None:
    agent = Agent(300)
    while on_their_way := agent.order.on_their_way():
        agent.take(on_their_way[0])
    assert agent.sent == list(range(1, 301))
    assert agent.order.backlog_is_over


def test_less_of_the_backlog_is_on_its_way_where_acks_are_slow_and_never_none() -> None:
    agent = Agent(300)
    for _ in range(50):
        agent.take(agent.order.on_their_way()[0], 2 * SLOW_S)
        assert agent.order.on_their_way()
    assert len(agent.order.on_their_way()) == 1
    for _ in range(100):
        agent.take(agent.order.on_their_way()[0], SLOW_S / 2)
    assert len(agent.order.on_their_way()) > FIRST_OLD


def test_backlog_waits_for_new_batches_where_acks_are_slow_but_not_for_ever() -> None:
    agent = Agent(300)
    agent.make()
    agent.take(1, 2 * SLOW_S)
    assert agent.sent == [1, 301]
    agent.take(301)
    assert agent.sent == [1, 301, 2]
    agent.make()
    agent.take(2, 2 * SLOW_S)
    for _ in range(SHARE - 1):
        assert agent.sent[-1] > 300
        agent.make()
    assert agent.sent[-1] == 3


def test_new_batches_that_nobody_acknowledges_leave_room_for_the_backlog() -> None:
    agent = Agent(300)
    for _ in range(2 * WINDOW):
        agent.make()
    old = [one for one in agent.order.on_their_way() if one <= 300]
    assert old
    agent.take(old[0])
    for one in old[1:]:
        agent.take(one)
    assert [one for one in agent.order.on_their_way() if one <= 300]


def test_no_batch_overtakes_the_end_of_a_process() -> None:
    agent = Agent(300, in_order_through=200)
    agent.make()
    while 301 not in agent.sent:
        agent.take(agent.order.on_their_way()[0])
    assert set(range(1, 201)) <= set(agent.sent)
    assert 300 not in agent.sent


def test_all_goes_in_order_where_no_single_batch_is_acknowledged() -> None:
    order = Order(5)
    assert order.new().limit == 0
    assert order.old() == Wanted(5, WINDOW)


@given(
    backlog=st.integers(0, 150),
    in_order_through=st.integers(0, 150),
    does=st.lists(st.tuples(st.sampled_from(("make", "take", "slow")), st.integers(0, WINDOW)), max_size=300),
)
def test_every_batch_is_sent_once_and_each_kind_in_order(
    backlog: int, in_order_through: int, does: list[tuple[str, int]]
) -> None:
    agent = Agent(backlog, in_order_through)
    for what, which in does:
        on_their_way = agent.order.on_their_way()
        assert len(on_their_way) <= WINDOW
        if what == "make":
            agent.make()
        elif on_their_way:
            agent.take(on_their_way[which % len(on_their_way)], 2 * SLOW_S * (what == "slow"))
    while on_their_way := agent.order.on_their_way():
        agent.take(on_their_way[0])
    assert sorted(agent.sent) == list(range(1, agent.made + 1))
    assert [one for one in agent.sent if one > backlog] == list(range(backlog + 1, agent.made + 1))
    old = [one for one in agent.sent if one <= backlog]
    assert old == sorted(old)
    news = [at for at, one in enumerate(agent.sent) if one > backlog]
    if news and backlog:
        assert set(range(1, min(in_order_through, backlog) + 1)) <= set(agent.sent[: news[0]])


def test_processes_that_are_gone_or_said_to_have_exited_have_ended() -> None:
    one, other = Rank("job", "worker", 0, 1), Rank("job", "worker", 1, 2)
    exited = Event(EventKind.RANK_EXITED, 2, 2, other)
    ends = Ends()
    batches = [
        Batch(0, 1, ranks=[one]),
        Batch(1, 2, ranks=[one, other]),
        Batch(2, 3, ranks=[one, other], events=[exited]),
        Batch(3, 4, ranks=[other]),
        Batch(4, 5, ranks=[other]),
        Batch(5, 6),
    ]
    assert [ends.has(batch) for batch in batches] == [False, False, True, True, False, True]
