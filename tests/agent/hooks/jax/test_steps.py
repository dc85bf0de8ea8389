"""Steps of JAX: calls that are only queued end when their results are seen to be there."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks import Marker as RealMarker
from roofline_agent.hooks.jax.called import CalledFunction, JaxCall, JaxProgram
from roofline_agent.hooks.jax.leader import MOST_EARLY, PATIENCE
from roofline_agent.hooks.jax.steps import JaxSteps
from roofline_agent.hooks.tracing import NEVER

from .doubles import RecordingMarker


class Result:
    """An array that may not be there yet."""

    def __init__(self, ready: bool = True) -> None:
        self.ready = ready

    def is_ready(self) -> bool:
        return self.ready


class Deleted:
    """An array that was given away."""

    def is_ready(self) -> bool:
        raise RuntimeError("deleted")


class Training:
    """Calls of compiled functions, at times of our own."""

    def __init__(self) -> None:
        self.marker = RecordingMarker()
        self.steps = JaxSteps(self.marker)  # type: ignore[arg-type]
        self.train = self.program("train", 100, feeds_back=True)

    def program(self, name: str, flops: int | None, feeds_back: bool = False) -> JaxProgram:
        function = CalledFunction(name)
        function.feeds_back = feeds_back
        return JaxProgram(function, flops, None, 8)

    def call(
        self, program: JaxProgram, begin: int, returned: int, result: Any, compiled: bool = False
    ) -> None:
        self.steps.begins(begin)
        self.steps.called(JaxCall(program, begin, returned if compiled else begin, result), returned)

    def calls(self, program: JaxProgram, begins: Iterable[int]) -> None:
        """Calls that begin then, and whose results are read after 50 ns."""
        for begin in begins:
            self.call(program, begin, begin + 1, Result())
            self.steps.read(begin + 50)

    @property
    def numbers(self) -> list[int]:
        return [number for number, _, _ in self.marker.borders]

    def ends(self) -> list[int]:
        return [end for _, end, _ in self.marker.borders]


@pytest.fixture
def training() -> Training:
    return Training()


def test_step_ends_when_its_result_is_read(training: Training) -> None:
    for begin in (100, 200, 300, 400):
        training.call(training.train, begin, begin + 1, Result())
        training.steps.read(begin + 50)
    assert training.marker.borders == [
        (-1, 100, None),
        (0, 150, None),
        (1, 250, None),
        (2, 350, None),
        (3, 450, None),
    ]
    assert training.marker.examples == [None, 8, 8, 8, 8]
    assert training.marker.spans_sent[-1] == ("phase.call", 400, 450)


def test_without_a_reader_steps_go_from_call_to_call(training: Training) -> None:
    for begin in (100, 200, 300, 400):
        training.call(training.train, begin, begin + 1, Result())
    training.steps.finish(470)
    assert training.ends() == [100, 200, 300, 400, 470]


def test_queued_calls_share_the_time_until_the_last_has_ended(training: Training) -> None:
    results = [Result(False) for _ in range(4)]
    for at, result in enumerate(results):
        training.call(training.train, 100 + at, 101 + at, result)
    assert training.ends() == []
    for result in results:
        result.ready = True
    training.steps.read(500)
    assert training.ends() == [100, 200, 300, 400, 500]


def test_larger_calls_have_more_of_the_time(training: Training) -> None:
    small = JaxProgram(training.train.function, 50, None, 4)
    results = [Result(False) for _ in range(3)]
    for program, result in zip((training.train, small, training.train), results, strict=True):
        training.call(program, 0, 0, result)
    results[-1].ready = results[0].ready = results[1].ready = True
    training.steps.read(250)
    assert training.ends() == [0, 100, 150, 250]


def test_compilation_is_of_the_first_step_alone(training: Training) -> None:
    results = [Result(False) for _ in range(4)]
    training.call(training.train, 0, 1000, results[0], compiled=True)
    for result in results[1:]:
        training.call(training.train, 1000, 1000, result)
    for result in results:
        result.ready = True
    training.steps.read(1400)
    assert training.ends() == [0, 1100, 1200, 1300, 1400]


def test_call_that_was_held_back_shows_when_another_ended(training: Training) -> None:
    results = [Result(False) for _ in range(5)]
    for at in range(4):
        training.call(training.train, at, at, results[at])
    training.steps.begins(10)
    results[0].ready = True  # while the next call is being made
    training.steps.called(JaxCall(training.train, 10, 10, results[4]), 100)
    results[1].ready = True  # not seen: nobody asks now
    training.steps.begins(150)
    assert len(training.steps.queue) == 4
    for result in results:
        result.ready = True
    training.steps.read(500)
    assert training.ends() == [0, 100, 200, 300, 400, 500]


def test_result_given_away_is_no_obstacle(training: Training) -> None:
    for begin in (100, 200, 300, 400):
        training.call(training.train, begin, begin + 1, Deleted())
    assert training.ends() == [100, 200, 300, 400]


def test_function_that_trains_and_does_most_work_makes_the_steps(training: Training) -> None:
    init = training.program("init", 10_000)
    augment, average = training.program("augment", 5), training.program("average", 10, feeds_back=True)
    training.call(init, 0, 1, Result())
    for at in range(100, 500, 100):
        training.call(augment, at, at + 1, Result())
        training.call(training.train, at + 10, at + 11, Result())
        training.call(average, at + 60, at + 61, Result())
    training.steps.finish(600)
    assert [number for number, _, _ in training.marker.borders] == [-1, 0, 1, 2, 3]
    assert training.ends() == [110, 160, 260, 360, 460]
    assert training.marker.facts == {"steps.of": "train"}


def test_nothing_that_does_not_train_makes_steps(training: Training) -> None:
    evaluate = training.program("evaluate", 1000)
    for at in range(100):
        training.call(evaluate, at, at, Result())
    training.steps.finish(200)
    assert training.marker.borders == []


def test_results_of_ended_calls_are_not_kept(training: Training) -> None:
    evaluate, gone = training.program("evaluate", 30), []

    def call(program: JaxProgram, at: int) -> None:
        result = Result()
        gone.append(weakref.ref(result))
        training.call(program, at, at, result)

    for at in range(5):  # as long as nothing trains
        call(evaluate, at)
    for at in range(100, 500, 100):
        call(training.train, at)
        call(evaluate, at + 50)
    training.steps.read(500)
    assert [one() for one in gone] == [None] * len(gone)


def test_evaluation_now_and_then_is_of_no_step(training: Training) -> None:
    evaluate, metrics = training.program("evaluate", 30), training.program("metrics", 1)
    for at in range(0, 500, 100):
        training.call(training.train, at, at + 1, Result())
        training.steps.read(at + 50)
    for at in (510, 530, 550):
        training.call(evaluate, at, at + 1, Result())
        training.steps.read(at + 15)
    training.call(metrics, 570, 571, Result())
    training.call(training.train, 600, 601, Result())
    training.steps.read(650)
    assert training.marker.borders[-2:] == [(4, 450, None), (5, 650, 565)]
    assert ("between.evaluation", 510, 565) in training.marker.spans_sent


def test_what_runs_at_every_step_is_a_part_of_it(training: Training) -> None:
    second = training.program("second_half", 90)
    for at in range(0, 500, 100):
        training.call(training.train, at, at + 1, Result())
        training.call(second, at + 50, at + 51, Result())
    training.steps.finish(500)
    assert [begin for _, _, begin in training.marker.borders] == [None] * 6


def test_another_training_in_the_same_process_goes_on_counting(training: Training) -> None:
    for at in range(0, 300, 100):
        training.call(training.train, at, at + 1, Result())
        training.steps.read(at + 50)
    training.calls(training.program("other", 100, feeds_back=True), range(1000, 1000 + 100 * PATIENCE, 100))
    numbers = [number for number, _, _ in training.marker.borders]
    assert numbers == list(range(-1, 3 + PATIENCE))
    assert training.marker.borders[4] == (3, 1050, 1000)
    assert ("between.other", 250, 1000) in training.marker.spans_sent


def test_evaluation_whose_metrics_come_back_is_of_no_step(training: Training) -> None:
    evaluate = training.program("evaluate", 33, feeds_back=True)
    small = JaxProgram(training.train.function, 10, None, 1)
    for epoch in (0, 10_000):
        training.calls(training.train, range(epoch, epoch + 1900, 100))
        training.calls(small, [epoch + 1900])  # the last batch
        training.calls(evaluate, range(epoch + 3000, epoch + 4200, 100))
    training.steps.finish(20_000)
    assert training.numbers == list(range(-1, 40))
    assert training.marker.spans_sent[20] == ("between.evaluation", 3000, 4150)
    assert training.marker.facts == {"steps.of": "train"}


def test_evaluation_with_larger_batches_is_taken_for_steps_once(training: Training) -> None:
    evaluate = training.program("evaluate", 267, feeds_back=True)
    for epoch in range(0, 60_000, 20_000):
        training.calls(training.train, range(epoch, epoch + 10_000, 100))
        training.calls(evaluate, range(epoch + 11_000, epoch + 12_200, 100))
    assert training.numbers == list(range(-1, 300 + 12))
    training.steps.finish(70_000)
    assert training.numbers == list(range(-1, 300 + 12))


@pytest.mark.parametrize(("updates", "before"), [(4, 64), (16, 32)])
def test_environment_of_reinforcement_learning_makes_no_steps(
    training: Training, updates: int, before: int
) -> None:
    """Its state is its own next argument; before: calls of it that came first, and were taken for steps."""
    act, environment = training.program("act", 10), training.program("environment", 3, feeds_back=True)
    train = training.program("train", 5000, feeds_back=True)
    for at in range(0, 100_000, 10_000):
        for call in range(at, at + 3200, 100):
            training.calls(act, [call])
            training.calls(environment, [call + 50])
        training.calls(train, range(at + 4000, at + 4000 + 100 * updates, 100))
    training.steps.finish(200_000)
    assert training.marker.facts == {"steps.of": "train"}
    later = 10 if before == 32 else 9  # rounds
    assert training.numbers == list(range(-1, before + later * updates))


def test_smaller_training_after_another_is_known_at_the_end(training: Training) -> None:
    """Until then it may be an evaluation: the one before it could be called again."""
    training.calls(training.train, range(0, 2000, 100))
    training.calls(training.program("second", 50, feeds_back=True), range(2000, 3900, 100))
    training.calls(training.program("third", 20, feeds_back=True), range(4000, 4800, 100))
    assert training.numbers == list(range(-1, 20))
    training.steps.finish(5000)
    assert training.numbers == list(range(-1, 20 + 19 + 8))


def test_few_calls_at_the_end_are_an_evaluation(training: Training) -> None:
    training.calls(training.train, range(0, 10_000, 100))
    training.calls(training.program("evaluate", 33, feeds_back=True), range(10_000, 12_000, 100))
    training.steps.finish(20_000)
    assert training.numbers == list(range(-1, 100))


def test_smaller_training_is_known_once_the_other_was_not_called_for_long(training: Training) -> None:
    training.calls(training.train, range(0, 300_000, 100))
    second = training.program("second", 50, feeds_back=True)
    training.calls(second, range(300_000, 300_000 + 100 * 2047, 100))
    assert training.numbers == list(range(-1, 3000))
    training.calls(second, [600_000])
    assert training.numbers == list(range(-1, 3000 + 2048))


def test_training_replaces_what_was_called_before_it_began(training: Training) -> None:
    """Keys of random numbers are called for at every step, too."""
    key = training.program("next_key", 3, feeds_back=True)
    training.calls(key, range(0, 500, 100))
    for at in range(1000, 3000, 100):
        training.calls(key, [at])
        training.calls(training.train, [at + 50])
    assert training.marker.facts == {"steps.of": "train"}
    assert len(training.ends()) == 1 + 5 + 8 + 13, "keys, until it had been called eight times"


def test_step_of_two_programs_does_more_than_an_evaluation(training: Training) -> None:
    gradients, apply = training.program("gradients", 99), training.program("apply", 1, feeds_back=True)
    evaluate = training.program("evaluate", 33, feeds_back=True)
    for epoch in range(0, 30_000, 10_000):
        for at in range(epoch, epoch + 2000, 100):
            training.calls(gradients, [at])
            training.calls(apply, [at + 50])
        training.calls(evaluate, range(epoch + 3000, epoch + 4200, 100))
    assert training.marker.facts == {"steps.of": "apply"}
    assert training.numbers == list(range(-1, 60))


def test_where_flops_are_not_known_who_is_called_alone_trains(training: Training) -> None:
    training.calls(training.train, range(0, 500, 100))
    training.calls(training.program("other", None, feeds_back=True), range(1000, 1000 + 100 * PATIENCE, 100))
    assert training.numbers == list(range(-1, 5 + PATIENCE))
    training.calls(training.train, range(5000, 5000 + 100 * PATIENCE, 100))
    assert training.numbers == list(range(-1, 5 + 2 * PATIENCE))


def test_executed_programs_cover_the_time_without_gaps(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofline_agent.hooks.jax.steps.SEND_CALLS", 2)
    training.train.kernel = 7
    for at in range(0, 500, 100):
        training.call(training.train, at, at + 1, Result())
        training.steps.read(at + 50)
    training.steps.finish(500)
    marker = training.marker
    assert marker.executed == [(7, at, 50) for at in range(0, 500, 100)]
    assert marker.covered == [(0, 150), (150, 350), (350, 450)]


# -- steps that a profiler records --------------------------------------------------------------------------


def test_calls_around_traced_steps_are_waited_for_and_others_are_not(training: Training) -> None:
    tracing = training.marker.tracing
    tracing.at = 5  # something is to be done at the end of step 5
    waited = []
    for at in range(6):
        training.call(training.train, 100 + at, 101 + at, Result(False))
        waited.append(training.steps.waits())
    assert waited == [False] * 4 + [True] * 2, "from the step before on"
    tracing.at = NEVER
    assert not training.steps.waits()
    tracing.is_due = True
    assert training.steps.waits(), "which steps are wanted is looked up at the next border"


def test_calls_are_waited_for_where_ranges_are_opened_at_borders(training: Training) -> None:
    """Else a range would open for a step that is over."""
    marker = RealMarker(SimpleNamespace(said_by_training=None), environ={}, profiler=object())
    training.steps = JaxSteps(marker)
    training.call(training.train, 100, 101, Result(False))
    assert training.steps.waits()
    training.steps = JaxSteps(RealMarker(SimpleNamespace(said_by_training=None), environ={}))
    training.call(training.train, 100, 101, Result(False))
    assert not training.steps.waits()


def trace_is_asked_for(tracing: Any) -> list[str]:
    """Why it is refused, once it is."""
    why: list[str] = []

    def refuse(reason: str) -> None:
        why.append(reason)
        tracing.is_due = False

    tracing.is_due, tracing.refuse = True, refuse
    return why


def waited(training: Training, program: JaxProgram, calls: int) -> list[bool]:
    """Which of so many calls are waited for."""
    found = []
    for at in range(calls):
        training.calls(program, [100 * at])
        found.append(training.steps.waits())
    return found


def test_trace_of_a_process_that_trains_nothing_is_refused(training: Training) -> None:
    """Else each of its calls would be waited for until it ends."""
    why = trace_is_asked_for(training.marker.tracing)
    answer = training.program("answer", 1000)
    assert waited(training, answer, MOST_EARLY // 2 - 1) == [True] * 256 + [False] * (MOST_EARLY // 2 - 257)
    assert why == [], "a training may begin late"
    assert waited(training, answer, 1) == [False]
    assert why == ["no function of this process trains"]
    again = trace_is_asked_for(training.marker.tracing)
    assert waited(training, answer, 257) == [True] * 256 + [False]
    assert again == why


def test_trace_is_refused_once_the_training_is_over(training: Training) -> None:
    training.calls(training.train, range(0, 500, 100))
    why = trace_is_asked_for(training.marker.tracing)
    for _ in range(2):  # many calls in a step are waited for
        waited(training, training.program("accumulate", 100), 2000)
        training.calls(training.train, [300_000])
    assert why == []
    assert waited(training, training.program("answer", 1000), MOST_EARLY + 1)[-2:] == [True, False]
    assert why == ["no function of this process trains"]


def test_profiler_is_begun_behind_no_step_that_others_have_followed(training: Training) -> None:
    """Else it would record, as the next steps, what has ended or is at work already."""
    for at in range(3):
        training.call(training.train, 10 * at, 10 * at + 1, Result())
        training.steps.read(10 * at + 5)
    marker, training.marker.older = training.marker, []
    results = [Result(False) for _ in range(5)]
    for at, result in enumerate(results[:4]):
        training.call(training.train, 100 + at, 101 + at, result)
    training.steps.begins(110)
    results[0].ready = results[1].ready = True
    training.steps.called(JaxCall(training.train, 110, 110, results[4]), 150)  # held back until one had ended
    assert marker.borders[-2:] == [(3, 125, None), (4, 150, None)]
    assert marker.older == [3, 4], "others wait behind both"
    for result in results:
        result.ready = True
    training.steps.read(400)
    assert [number for number, _, _ in marker.borders] == list(range(-1, 8))
    assert marker.older == [3, 4, 5, 6], "the last one's end is that of all"
    training.call(training.train, 500, 501, Result())
    training.steps.read(550)
    assert marker.borders[-1][0] == 8 and marker.older[-1] == 6, "so is one that is waited for"


def test_compiled_functions_of_traced_steps_are_not_sent(training: Training) -> None:
    program, marker = JaxProgram(training.train.function, 100, 3, 8), training.marker
    for begin in range(100, 1000, 100):
        # A profiler runs from the border at 350 to that at 650.
        marker.tracing.records = 350 <= begin + 50 < 650
        training.call(program, begin, begin + 1, Result())
        training.steps.read(begin + 50)
    training.steps.finish(1000)
    assert [begin for _, begin, _ in marker.executed] == [100, 200, 300, 700, 800, 900]
    assert marker.covered[0] == (100, 350) and marker.covered[-1][0] >= 700
    assert len(training.ends()) == 1 + 9, "they are steps all the same"


def test_time_in_which_a_trace_begins_and_is_written_belongs_to_no_step(training: Training) -> None:
    marker = training.marker
    for begin in (100, 200, 300, 400, 500):
        training.call(training.train, begin, begin + 1, Result())
        if begin == 400:
            marker.stalls.append((450, 490))  # behind its border
        training.steps.read(begin + 50)
    assert marker.borders[-2:] == [(3, 450, None), (4, 550, 490)]
    assert ("between.trace", 450, 490) in marker.spans_sent
    assert marker.profiler_of == "jax"
