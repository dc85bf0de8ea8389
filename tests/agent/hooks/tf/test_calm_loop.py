"""Short steps of a loop written by hand in TensorFlow, of which the hooks only note calls and batches, give
the same marks and spans as any others."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from roofline_agent.hooks.marker import NoAccount
from roofline_agent.hooks.tf import cost as tf_cost
from roofline_agent.hooks.tf import eager as tf_eager
from roofline_agent.hooks.tf import function as tf_function
from roofline_agent.hooks.tf import graph_contents, training_function
from roofline_agent.hooks.tf import input as tf_input
from roofline_agent.hooks.tf import steps as tf_steps
from roofline_agent.hooks.tf import updates as tf_updates
from roofline_agent.hooks.tf.calls import TrainingCall
from roofline_agent.hooks.tf.calm import MOST_INPUTS
from roofline_agent.hooks.tf.steps import Steps

from .doubles import MS, AtOnceMarker, DeferringMarker, OneInFour, assert_alike


class EagerTensor:
    def __init__(self, *shape: int) -> None:
        self._shape = shape

    def _shape_tuple(self) -> tuple[int, ...]:
        return self._shape


class Optimizer:
    """Of Keras: counts its updates in a variable."""

    def __init__(self) -> None:
        self.count, self.handle = 0, object()
        self._iterations = SimpleNamespace(handle=self.handle, numpy=lambda: self.count)


class Graph:
    """Of a function that is traced: a gradient is taken in it, for this optimizer if there is one."""

    def __init__(self, optimizer: Optimizer | None) -> None:
        self.captures = [(optimizer.handle, None)] if optimizer else []


class Loop:
    """A made-up TensorFlow with its hooks in it, and a clock that stands still between acts."""

    def __init__(self, marker: Any, with_optimizer: bool) -> None:
        self.now, self.marker, self.steps = 10_000 * MS, marker, Steps()
        marker.account.clock = lambda: self.now
        self.counters, self.traced = tf_updates._Counters(), graph_contents._Traced()
        self.optimizer = Optimizer() if with_optimizer else None
        if self.optimizer:
            self.counters.add(self.optimizer)
        self.lasts, self.fails_now, self.batches = 1.0, False, 0
        function = type("Function", (), {"__call__": lambda function, *args: function.run(*args)})
        function.get_concrete_function = lambda function: None  # type: ignore[attr-defined]
        iterator = type("OwnedIterator", (), {"_next_internal": lambda iterator: self.yields(iterator)})
        context = SimpleNamespace(executing_eagerly=lambda: True)
        with self.patched():
            tf_function.patch(SimpleNamespace(Function=function), marker)
            tf_input.patch(SimpleNamespace(OwnedIterator=iterator, context=context), marker)
        self.function, self.iterator = function, iterator
        self.train, self.other = self.trains(self.optimizer), self.trains(self.optimizer)
        self.evaluate = function()
        self.evaluate.run = lambda *_: self.passes(0.5)
        self.made_anew()

    @contextmanager
    def patched(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for module in (tf_function, tf_input, tf_cost, tf_steps, tf_updates):
                patch.setattr(module, "_now", lambda: self.now)
            for module in (tf_function, tf_input, tf_eager, tf_updates, training_function):
                patch.setattr(module, "steps", self.steps)
            for module in (tf_function, training_function, tf_updates):
                patch.setattr(module, "counters", self.counters)
            patch.setattr(tf_function, "_calm", self.steps.calm)
            patch.setattr(tf_function, "traced", self.traced)
            yield

    def trains(self, optimizer: Optimizer | None) -> Any:
        function, known = self.function(), []

        def run(*arguments: Any) -> str:
            if not known:
                known.append(True)
                self.traces(optimizer)
            self.passes(self.lasts)
            if self.fails_now:
                raise KeyError
            if optimizer:
                optimizer.count += 1
            return "loss"

        function.run, function.known = run, known
        return function

    def traces(self, optimizer: Optimizer | None) -> None:
        graph = Graph(optimizer)
        graph_contents.contents_of(graph).gradients += 1
        self.traced.graph = graph
        self.traced.count += 1

    def yields(self, iterator: Any) -> Any:
        self.passes(0.2)
        self.batches += 1
        return EagerTensor(iterator.size, 3), EagerTensor(iterator.size)

    def passes(self, ms: float) -> None:
        self.now += int(ms * MS)

    def loop(self, acts: list[str]) -> None:
        with self.patched():
            for act in acts:
                getattr(self, act)()
                self.passes(0.1)

    def batch(self) -> Any:
        return self.data._next_internal()

    def step(self) -> None:
        assert self.train(*self.batch()) == "loss"

    # What is not in every step.

    def without_input(self) -> None:
        self.train(EagerTensor(8, 3), True)

    def two_batches(self) -> None:
        self.batch()
        self.step()

    def smaller(self) -> None:
        self.data.size = 5
        self.step()
        self.data.size = 8

    def slow(self) -> None:
        self.lasts = 200.0
        self.step()
        self.lasts = 1.0

    def pauses(self) -> None:
        self.passes(500)

    def another_dataset(self) -> None:
        self.made_anew()

    def made_anew(self) -> None:
        self.data = self.iterator()
        self.data.size = 8

    def evaluates(self) -> None:
        others = self.iterator()
        others.size = 16
        for _ in range(3):
            self.evaluate(*others._next_internal())

    def evaluates_for_long(self) -> None:
        others = self.iterator()
        others.size = 16
        for _ in range(MOST_INPUTS + 4):
            self.evaluate(*others._next_internal())

    def measures(self) -> None:
        self.evaluate(1)

    def exhausted(self) -> None:
        self.steps.exhausted(self.data, self.now)

    def saves(self) -> None:
        self.passes(2)
        self.steps.between("checkpoint", self.now - 2 * MS, self.now)

    def another_function(self) -> None:
        self.other(*self.batch())

    def traced_again(self) -> None:
        self.train.known.clear()
        self.step()

    def fails(self) -> None:
        self.fails_now = True
        with pytest.raises(KeyError):
            self.step()
        self.fails_now = False

    def skips_update(self) -> None:
        if self.optimizer:
            self.optimizer.count -= 1
        self.step()

    def by_hand(self) -> None:
        call = TrainingCall(self.now, self.now + 1000, None, "phase.backward")
        tf_eager.EagerLoop().gradient(self.marker, self.train, call, may_update=True)


UNUSUAL = (
    *("without_input", "two_batches", "smaller", "slow", "pauses", "another_dataset", "evaluates", "saves"),
    *("evaluates_for_long", "measures", "exhausted", "another_function", "traced_again", "fails", "by_hand"),
)
ACTS = st.lists(st.one_of(st.just("step"), st.sampled_from(("step", *UNUSUAL))), max_size=60)


def looped(marker: Any, acts: list[str], with_optimizer: bool) -> Loop:
    loop = Loop(marker, with_optimizer)
    loop.loop(acts)
    return loop


def assert_same(acts: list[str], account: Any, with_optimizer: bool) -> None:
    """Calm or not, the training sends the same."""
    at_once, calm = AtOnceMarker(account), DeferringMarker(account)
    looped(at_once, acts, with_optimizer)
    loop = looped(calm, acts, with_optimizer)
    with loop.patched():
        calm.hand_over()
    assert_alike(calm, at_once)
    assert not loop.steps.calm.log


@settings(deadline=None)
@given(ACTS, st.sampled_from([NoAccount, OneInFour]), st.booleans())
@example(["step"] * 200, NoAccount, False)
@example(["step"] * 200, OneInFour, True)
@example(["without_input"] * 200, NoAccount, True)
def test_calm_steps_of_a_loop_say_the_same_as_others(
    acts: list[str], account: Any, with_optimizer: bool
) -> None:
    assert_same(["step", "step", *acts, "step"], account, with_optimizer)


@pytest.mark.parametrize("with_optimizer", [False, True])
@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_unusual_may_come_anywhere_in_a_loop(what: str, with_optimizer: bool) -> None:
    for before in range(2, 10):
        assert_same([*["step"] * before, what, *["step"] * 10], NoAccount, with_optimizer)


def test_two_functions_may_share_an_optimizer() -> None:
    turns = [*["step"] * 77, "another_function", *["step"] * 116]
    assert_same([*turns, *turns, *["step"] * 900], NoAccount, True)


@pytest.mark.parametrize("act", ["step", "without_input"])
@pytest.mark.parametrize("with_optimizer", [False, True])
def test_most_short_steps_of_a_loop_are_only_noted(act: str, with_optimizer: bool) -> None:
    marker = DeferringMarker()
    loop, noted = Loop(marker, with_optimizer), 0

    class Watched(list[str]):
        def __iter__(self) -> Iterator[str]:
            nonlocal noted
            for act in super().__iter__():
                yield act
                noted += bool(loop.steps.calm.log)

    loop.loop(Watched([act] * 300))
    with loop.patched():
        marker.hand_over()
    assert noted > 240
    assert [number for number, *_ in marker.windows] == list(range(300))
    assert {examples for *_, examples in marker.windows} == {8}


def test_counter_of_updates_is_read_at_the_call_that_it_is_due_at() -> None:
    """What a later reading has in it is no update of an earlier call."""
    assert_same([*["step"] * 100, "skips_update", *["step"] * 100], NoAccount, True)


@pytest.mark.parametrize("act", ["batch", "measures"])
def test_what_was_noted_is_handed_over_with_whatever_comes_400_ms_later(act: str) -> None:
    marker = DeferringMarker()
    marker.deferred_to = lambda: 10**6  # type: ignore[method-assign]
    Loop(marker, False).loop([*["step"] * 20, "pauses", act])
    assert len(marker.windows) == 20


def test_batches_that_train_nothing_do_not_hold_up_what_was_noted() -> None:
    marker = DeferringMarker()
    marker.deferred_to = lambda: 10**6  # type: ignore[method-assign]
    loop = Loop(marker, False)
    loop.loop([*["step"] * 20, "evaluates_for_long"])
    assert len(marker.windows) == 20


def test_call_that_lasts_hands_over_what_was_noted() -> None:
    marker = DeferringMarker()
    marker.deferred_to = lambda: 10**6  # type: ignore[method-assign]
    loop = Loop(marker, False)
    loop.evaluate.run = lambda *_: loop.passes(1000)
    loop.loop([*["step"] * 20, "measures"])
    assert len(marker.windows) == 20


def test_function_and_dataset_may_be_freed_while_their_last_steps_are_noted() -> None:
    marker = DeferringMarker()
    loop = Loop(marker, False)
    loop.loop([*["step"] * 20])
    gone = weakref.ref(loop.train), weakref.ref(loop.data)
    loop.train = loop.data = None
    gc.collect()
    assert [one() for one in gone] == [None, None]
    with loop.patched():
        marker.hand_over()
    assert len(marker.windows) == 20
