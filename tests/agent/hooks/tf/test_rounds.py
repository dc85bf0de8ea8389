"""Which steps the closures of a coordinator are."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.hooks.tf.rounds import Closure, Rounds, Step


class Queue:
    """A coordinator's queue and its workers, and the steps that were told."""

    def __init__(self, workers: int) -> None:
        self.workers, self.rounds, self.told = workers, Rounds(), list[Step]()
        self.time = self.serial = 0

    def put(self, count: int = 1) -> None:
        for _ in range(count):
            self.told += self.rounds.put(self.workers)

    def finish(self, *workers: int) -> None:
        for worker in workers:
            self.time += 10
            self.serial += 1
            closure = Closure(worker, self.time - 8, self.time, self.serial)
            self.told += self.rounds.finished(closure, self.workers)

    def wait(self) -> None:
        self.time += 10
        self.told += self.rounds.waited(self.time, self.workers)

    def round(self, *workers: int) -> None:
        self.put(len(workers))
        self.finish(*workers)
        self.wait()

    def ends(self) -> None:
        self.told += self.rounds.ends()

    def numbers(self) -> list[tuple[int, int]]:
        return [(step.closure.worker, step.number) for step in self.told]

    def modes(self) -> set[bool]:
        return {step.asynchronous for step in self.told}


def test_waiting_for_a_closure_of_every_worker_is_a_round() -> None:
    queue = Queue(2)
    for _ in range(3):
        queue.round(0, 1)
    queue.ends()
    assert queue.numbers() == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert queue.modes() == {False}


def test_worker_may_run_two_closures_of_a_round_and_another_none() -> None:
    queue = Queue(2)
    for workers in ((0, 1), (1, 1), (0, 0)):
        queue.round(*workers)
    assert queue.numbers() == [(0, 0), (1, 0), (1, 1), (1, 1), (0, 2), (0, 2)]
    assert queue.modes() == {False}


def test_marks_of_known_rounds_are_not_held_back() -> None:
    queue = Queue(2)
    queue.round(0, 1)
    queue.put(2)
    queue.finish(0, 1)
    assert queue.told == [], "one round may be a warm-up"
    queue.wait()
    assert len(queue.told) == 4
    queue.put(2)
    queue.finish(1)
    assert len(queue.told) == 5


def test_rounds_follow_each_other_without_a_gap() -> None:
    """What the chief does between two rounds all workers wait for: it is in the later one."""
    queue = Queue(2)
    for workers in ((0, 1), (0, 1), (1, 1)):
        queue.round(*workers)
    spans = [(step.closure.worker, step.closure.begin_ns, step.closure.end_ns) for step in queue.told]
    assert spans == [(0, 2, 10), (1, 12, 20), (0, 30, 40), (1, 30, 50), (1, 60, 70), (1, 70, 80)]


def test_what_is_done_between_rounds_besides_training_is_in_no_step() -> None:
    queue = Queue(1)
    queue.round(0)
    queue.rounds.broken()
    queue.round(0)
    queue.round(0)
    assert [step.closure[1:3] for step in queue.told] == [(2, 10), (22, 30), (40, 50)]


def test_long_queue_is_asynchronous_at_once() -> None:
    queue = Queue(2)
    queue.put(4)
    queue.finish(0)
    assert queue.told == []
    queue.put()
    queue.finish(0, 1, 0)
    assert queue.numbers() == [(0, 0), (0, 1), (1, 0), (0, 2)]
    assert queue.modes() == {True}


def test_warm_up_round_before_asynchronous_training_is_asynchronous_too() -> None:
    queue = Queue(2)
    queue.round(0, 1)
    queue.put(20)
    queue.finish(0, 1, 0)
    assert queue.numbers() == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    assert queue.modes() == {True}


def test_rounds_that_become_asynchronous_go_on_counting() -> None:
    queue = Queue(2)
    for _ in range(2):
        queue.round(0, 1)
    queue.put(5)
    queue.finish(1, 1, 0)
    queue.wait()
    queue.round(0, 1)
    assert [(s.closure.worker, s.number, s.asynchronous) for s in queue.told[4:]] == [
        (1, 2, True),
        (1, 3, True),
        (0, 2, True),
        (0, 3, True),
        (1, 4, True),
    ]


def test_waiting_for_nothing_is_ignored() -> None:
    queue = Queue(2)
    for _ in range(3):
        queue.wait()
        queue.round(0, 1)
        queue.wait()
    assert {number for _, number in queue.numbers()} == {0, 1, 2}


def test_epochs_of_a_few_closures_are_asynchronous() -> None:
    """Five closures for three workers, then a join, and again: in between nobody waits for anybody."""
    queue = Queue(3)
    for _ in range(4):
        queue.round(0, 1, 2, 0, 1)
    queue.ends()
    assert queue.modes() == {True}
    assert queue.numbers()[-3:] == [(2, 3), (0, 7), (1, 7)]
    assert len(queue.told) == 20


def test_warm_up_round_and_short_epochs_are_asynchronous() -> None:
    queue = Queue(3)
    queue.round(0, 1, 2)
    queue.round(0, 1, 2, 0, 1)
    queue.ends()
    assert queue.modes() == {True}


def test_single_round_is_sent_when_the_process_ends() -> None:
    queue = Queue(2)
    queue.round(0, 1)
    queue.ends()
    assert queue.told == [Step(0, False, Closure(0, 2, 10, 1)), Step(0, False, Closure(1, 12, 20, 2))]


def test_closure_that_was_not_put_is_its_workers_own() -> None:
    queue = Queue(1)
    queue.finish(0, 0)
    assert queue.numbers() == [(0, 0), (0, 1)] and queue.modes() == {True}


@given(
    st.integers(1, 4),
    st.lists(st.one_of(st.just("wait"), st.integers(1, 12)), max_size=12),
    st.randoms(use_true_random=False),
)
def test_no_closure_is_lost_sent_twice_or_held_in_numbers(
    workers: int, events: list[Any], random: Any
) -> None:
    queue, finished = Queue(workers), 0
    for event in events:
        if event == "wait":
            queue.wait()
            continue
        queue.put(event)
        queue.finish(*(random.randrange(workers) for _ in range(event)))
        finished += event
        assert finished - len(queue.told) <= 8 * workers
    queue.ends()
    assert [step.closure.examples for step in queue.told] == list(range(1, finished + 1))
    for worker in range(workers):
        own = [step for step in queue.told if step.closure.worker == worker]
        numbers = [step.number for step in own if step.asynchronous]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        assert [step.number for step in own] == sorted(step.number for step in own)
