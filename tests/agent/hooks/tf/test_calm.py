"""Short steps of Keras of which the hook only notes the calls give the same marks and spans as any others."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from roofline_agent.hooks.keras import fit as keras_fit
from roofline_agent.hooks.marker import NoAccount
from roofline_agent.hooks.tf import between as tf_between
from roofline_agent.hooks.tf import cost as tf_cost
from roofline_agent.hooks.tf import eager as tf_eager
from roofline_agent.hooks.tf import steps as tf_steps
from roofline_agent.hooks.tf.calls import TrainingCall
from roofline_agent.hooks.tf.steps import Steps

from .doubles import MS, AtOnceMarker, DeferringMarker, OneInFour, assert_alike


class Iterates:
    def __init__(self, size: int | None) -> None:
        self.element_spec = SimpleNamespace(shape=(size, 3))


class Model:
    train_function: Any = None

    def __init__(self, training: Training) -> None:
        self.training = training

    def make_train_function(self) -> Any:
        if self.train_function is None:
            self.train_function = lambda iterator: self.training.works()
        return self.train_function

    def fit(self, run: Any) -> None:
        self.make_train_function()
        self.reset_metrics()
        try:
            run()
        finally:
            self.training.passes(0.1)

    def reset_metrics(self) -> None: ...

    def evaluation(self) -> None: ...

    def evaluate(self) -> None:
        self.evaluation()
        self.training.passes(3)

    def save(self) -> None:
        self.training.passes(2)

    def train_on_batch(self, batch: Any) -> None:
        self.reset_metrics()
        self.make_train_function()
        self.train_function(Iterates(None))
        self.training.passes(0.2)


class Adapter:
    batch_size, has_partial_batch = 16, True

    def get_size(self) -> int:
        return 5

    def partial_batch_size(self) -> int:
        return 7


class Training:
    """A made-up Keras with its hooks in it, and a clock that stands still between acts."""

    def __init__(self, marker: Any, size: int | None) -> None:
        self.now, self.marker, self.size, self.steps = 10_000 * MS, marker, size, Steps()
        marker.account.clock = lambda: self.now
        owner = type("Model", (Model,), {**vars(Model), "__module__": "keras"})
        self.handler = SimpleNamespace(_adapter=Adapter(), _step_increment=0)
        handlers = SimpleNamespace(get_data_handler=lambda: self.handler)
        with self.patched():
            keras_fit.patch(SimpleNamespace(__name__="keras", Model=owner, data_adapter=handlers), marker)
        self.model, self.other, self.handlers = owner(self), owner(self), handlers
        self.other.make_train_function()
        self.iterator: Any = Iterates(size)
        self.lasts, self.fails_now = 1.0, False

    @contextmanager
    def patched(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for module in (keras_fit, tf_between, tf_cost, tf_steps):
                patch.setattr(module, "_now", lambda: self.now)
            for module in (keras_fit, tf_between, tf_eager):
                patch.setattr(module, "steps", self.steps)
            patch.setattr(keras_fit, "_calm", self.steps.calm)
            yield

    def fit(self, acts: list[str]) -> None:
        def run() -> None:
            self.handlers.get_data_handler()
            for act in acts:
                getattr(self, act)()
                self.passes(0.1)

        with self.patched():
            self.model.fit(run)

    def in_batches(self, acts: list[str]) -> None:
        with self.patched():
            self.model.make_train_function()
            for act in acts:
                getattr(self, act)()
                self.passes(0.1)

    def passes(self, ms: float) -> None:
        self.now += int(ms * MS)

    def works(self) -> str:
        self.passes(self.lasts)
        if self.fails_now:
            raise KeyError
        return "logs"

    def step(self) -> None:
        assert self.model.train_function(self.iterator) == "logs"

    # What is not in every step.

    def slow(self) -> None:
        self.lasts = 200.0
        self.step()
        self.lasts = 1.0

    def pauses(self) -> None:
        self.passes(500)

    def epoch(self) -> None:
        self.model.reset_metrics()
        self.iterator = Iterates(self.size)

    def another_iterator(self) -> None:
        self.iterator = Iterates(32)

    def evaluates(self) -> None:
        self.model.evaluate()

    def saves(self) -> None:
        self.model.save()

    def another_model(self) -> None:
        self.other.train_function(self.iterator)

    def one_batch(self) -> None:
        self.model.train_on_batch(SimpleNamespace(shape=(4, 3)))

    def takes(self) -> None:
        self.steps.took(self.marker, 4, self.now, self.now + MS // 4)
        self.passes(0.25)

    def exhausted(self) -> None:
        self.steps.exhausted(self.marker, self.now)

    def by_hand(self) -> None:
        call = TrainingCall(self.now, self.now + 1000, None, "phase.backward")
        tf_eager.EagerLoop().gradient(self.marker, self.model, call, may_update=True)

    def another_batch(self) -> None:
        self.model.train_on_batch(SimpleNamespace(shape=(6, 3)))

    def fits_inside(self) -> None:
        self.model.fit(self.step)

    def fails(self) -> None:
        self.fails_now = True
        with pytest.raises(KeyError):
            self.step()
        self.fails_now = False

    def made_anew(self) -> None:
        self.model.train_function = None
        self.model.make_train_function()


UNUSUAL = (
    *("slow", "pauses", "epoch", "another_iterator", "evaluates", "saves", "another_model"),
    *("one_batch", "another_batch", "takes", "exhausted", "by_hand", "fits_inside", "fails", "made_anew"),
)
ACTS = st.lists(st.one_of(st.just("step"), st.sampled_from(("step", *UNUSUAL))), max_size=60)


def trained(marker: Any, acts: list[str], size: int | None) -> Training:
    training = Training(marker, size)
    training.fit(acts)
    training.fit(acts[:5])
    return training


def trained_on_batches(marker: Any, acts: list[str], size: int | None) -> Training:
    training = Training(marker, size)
    training.in_batches([act.replace("step", "one_batch") for act in acts])
    return training


def assert_same(acts: list[str], account: Any, size: int | None, trained: Any = trained) -> None:
    """Calm or not, the training sends the same."""
    at_once, calm = AtOnceMarker(account), DeferringMarker(account)
    trained(at_once, acts, size)
    training = trained(calm, acts, size)
    with training.patched():
        calm.hand_over()
    assert_alike(calm, at_once)
    assert not training.steps.calm.log


@settings(deadline=None)
@given(ACTS, st.sampled_from([NoAccount, OneInFour]), st.sampled_from([8, None]))
@example(["step"] * 200, NoAccount, 8)
@example(["step"] * 200, OneInFour, 8)
@example(["step"] * 200, OneInFour, None)
def test_calm_steps_say_the_same_as_others(acts: list[str], account: Any, size: int | None) -> None:
    assert_same(["step", "step", *acts, "step"], account, size)


@pytest.mark.parametrize("size", [8, None])
@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_unusual_may_come_anywhere(what: str, size: int | None) -> None:
    for before in range(2, 10):
        assert_same([*["step"] * before, what, *["step"] * 10], NoAccount, size)


@settings(deadline=None)
@given(ACTS, st.sampled_from([NoAccount, OneInFour]))
@example(["step"] * 200, OneInFour)
@example(["step"] * 3 + ["another_batch"] * 3 + ["step"] * 3, NoAccount)
def test_calm_steps_of_train_on_batch_say_the_same_as_others(acts: list[str], account: Any) -> None:
    acts = [act for act in acts if act != "fits_inside"]
    assert_same(["step", "step", *acts, "step"], account, 8, trained_on_batches)


@pytest.mark.parametrize("act", ["one_batch", "another_batch"])
def test_batches_by_themselves_are_only_noted(act: str) -> None:
    marker = DeferringMarker()
    training = Training(marker, 8)
    training.in_batches([act] * 300)
    with training.patched():
        marker.hand_over()
    assert marker.together > 250
    assert [number for number, *_ in marker.windows] == list(range(300))
    assert {examples for *_, examples in marker.windows} == {4 if act == "one_batch" else 6}


def test_model_may_be_freed_while_its_last_batches_are_noted() -> None:
    marker = DeferringMarker()
    training = Training(marker, 8)
    training.in_batches(["one_batch"] * 20)
    gone = weakref.ref(training.model)
    training.model = None
    gc.collect()
    assert gone() is None
    with training.patched():
        marker.hand_over()
    assert len(marker.windows) == 20


@pytest.mark.parametrize("account", [NoAccount, OneInFour])
def test_most_short_steps_are_only_noted_and_then_sent_together(account: Any) -> None:
    marker = DeferringMarker(account)
    training, noted = Training(marker, 8), 0

    class Watched(list[str]):
        def __iter__(self) -> Iterator[str]:
            nonlocal noted
            for act in super().__iter__():
                yield act
                noted += bool(training.steps.calm.log)

    training.fit(Watched(["step"] * 300))
    assert noted > 240
    assert marker.together > 140
    assert [number for number, *_ in marker.windows] == list(range(300))


def test_what_was_noted_waits_no_longer_than_some_steps_of_400_ms() -> None:
    marker = DeferringMarker()
    training = Training(marker, 8)
    marker.deferred_to = lambda: 10**6  # type: ignore[method-assign]
    with training.patched():
        training.model.make_train_function()
    told: list[int] = []

    class Watched(list[str]):
        def __iter__(self) -> Iterator[str]:
            for act in super().__iter__():
                yield act
                told.append(training.now - marker.windows[-1][2])

    training.fit(Watched(["step"] * 2000))
    assert 350 * MS < max(told) < 402 * MS


def test_evaluation_finds_all_steps_handed_over() -> None:
    marker = DeferringMarker()
    training = Training(marker, 8)
    told: list[int] = []
    training.model.evaluation = lambda: told.append(len(marker.windows))
    training.fit([*["step"] * 20, "evaluates"])
    assert told == [20]


def test_end_of_the_training_hands_over_what_was_noted() -> None:
    marker = DeferringMarker()
    training = Training(marker, 8)
    ends: list[int] = []

    def ends_suddenly() -> None:
        ends.append(len(marker.windows))
        marker.hand_over()
        ends.append(len(marker.windows))

    training.ends_suddenly = ends_suddenly  # type: ignore[attr-defined]
    training.fit([*["step"] * 20, "ends_suddenly"])
    assert ends[0] < 20 and ends[1] == 20


def test_forked_child_leaves_what_was_noted_to_its_parent() -> None:
    marker = DeferringMarker()
    training = Training(marker, 8)
    statuses: list[int] = []

    def forks() -> None:
        child = os.fork()
        if not child:
            before = len(marker.windows)
            marker.hand_over()
            os._exit(len(marker.windows) - before)
        statuses.append(os.waitpid(child, 0)[1])

    training.forks = forks  # type: ignore[attr-defined]
    training.fit([*["step"] * 20, "forks", *["step"] * 5])
    assert statuses == [0]
    assert [number for number, *_ in marker.windows] == list(range(25))


def test_call_of_several_steps_is_told_at_once() -> None:
    marker = DeferringMarker()
    training = Training(marker, 8)
    training.model.steps_per_execution = 2
    with training.patched():
        training.model.fit(lambda: [training.model.train_function(training.iterator) for _ in range(20)])
    assert len(marker.windows) == 40
    assert not marker.together


def test_keras_may_change_how_many_steps_a_call_makes() -> None:
    marker = DeferringMarker()
    training = Training(marker, 8)
    training.model.autotune_steps_per_execution = True

    def changes() -> None:
        training.handler._step_increment = 2

    training.changes = changes  # type: ignore[attr-defined]
    training.fit([*["step"] * 10, "changes", *["step"] * 10])
    assert len(marker.windows) == 40


@pytest.mark.parametrize("deferred_to", [10**6, -1])
def test_cost_of_steps_is_told_whether_they_are_only_noted_or_wanted_at_once(deferred_to: int) -> None:
    marker = DeferringMarker()
    marker.deferred_to = lambda: deferred_to  # type: ignore[method-assign]
    Training(marker, 8).fit(["step"] * 60)
    assert marker.facts == {"cost.hooks_ns": 0}, "this clock stands still in hooks"


class StallingMarker(DeferringMarker):
    """Behind step 40, which it wants at once, a trace is written."""

    training: Any = None

    def deferred_to(self) -> int:
        return 39 if len(self.windows) < 41 else 10**6

    def window(self, number: int, *times: Any, **more: Any) -> None:
        super().window(number, *times, **more)
        if number == 40:
            begin = self.training.now
            self.training.passes(5)
            self.stall = begin, self.training.now


@pytest.mark.parametrize("act", ["step", "one_batch"])
def test_time_in_which_a_trace_is_written_is_in_no_step_where_calm_ones_may_follow(act: str) -> None:
    marker = StallingMarker()
    marker.training = training = Training(marker, 8)
    (training.fit if act == "step" else training.in_batches)([act] * 60)
    with training.patched():
        marker.hand_over()
    ((_, _, written),) = [one for one in marker.phases if one[0] == "between.trace"]
    assert [(number, begin) for number, begin, *_ in marker.windows][41] == (41, written)
    assert len(marker.windows) == 60
    assert marker.together > 30, "those before, and those behind the next"
