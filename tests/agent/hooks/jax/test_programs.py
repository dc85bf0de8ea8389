"""Compiled functions of JAX: which train, how many examples a call has, and that nothing is kept alive."""

from __future__ import annotations

import sys
import weakref
from types import SimpleNamespace as Made
from typing import Any

import pytest
from roofline_agent.hooks.jax import calls
from roofline_agent.hooks.jax.programs import LOOKS, MOST_PROGRAMS, JaxExecutable, JaxFunction
from roofline_agent.hooks.jax.steps import MOST_HELD

from .doubles import JAX, Array, program, variable


class Traced(Made):
    """A traced program that can be seen to go."""


class Marker:
    """Of which nothing is looked at."""

    tracing = Made(at=1 << 62, is_due=False)

    def like(self, signature: Any) -> int:
        return 1

    def kernel(self, **_: Any) -> int:
        return 7

    def failed(self, hook: str) -> None:
        raise AssertionError(hook) from sys.exc_info()[1]


def compiled(*arguments: Any, jaxpr: Any = None) -> JaxExecutable:
    jaxpr = jaxpr or program(invars=[variable(*one.shape) for one in arguments])
    return JaxExecutable(Made(cost_analysis=lambda: {"flops": 10.0}), jaxpr, arguments)


@pytest.fixture
def function() -> JaxFunction:
    return JaxFunction(JAX, Marker(), "evaluate")  # type: ignore[arg-type]


def test_arguments_of_a_function_that_trains_nothing_are_not_kept(function: JaxFunction) -> None:
    parameters, batch = Array(100, 100), Array(8, 100)
    gone = weakref.ref(parameters), weakref.ref(batch)
    function.returned(compiled(parameters, batch), (parameters, batch), {}, Array())
    del parameters, batch
    assert [one() for one in gone] == [None, None]


def test_examples_are_known_though_the_first_arguments_are_gone(function: JaxFunction) -> None:
    parameters, out = Array(100, 100), Array(100, 100)
    found = function.returned(compiled(parameters, Array(8, 100)), (parameters, Array(8, 100)), {}, out)
    assert found is not None and found[0].examples is None
    assert function.look((out, Array(8, 100)), {})
    assert found[0].examples == 8


def test_program_is_forgotten_once_no_results_have_come_back(function: JaxFunction) -> None:
    jaxpr = Traced(jaxpr=Made(eqns=[], invars=[variable(8, 100)]))
    gone, batch = weakref.ref(jaxpr), Array(8, 100)
    outs = [Array() for _ in range(LOOKS + 1)]
    function.returned(compiled(batch, jaxpr=jaxpr), (batch,), {}, outs[0])
    del jaxpr
    for out in outs[1:]:
        assert gone() is not None
        assert not function.look((batch,), {})
        function.returned(None, (batch,), {}, out)
    assert gone() is None


@pytest.mark.parametrize("unused", [LOOKS, LOOKS + 5, 40])
def test_training_that_begins_with_calls_whose_results_are_not_used(
    function: JaxFunction, unused: int
) -> None:
    parameters, batch = Array(100, 100), Array(8, 100)
    traced = Traced(jaxpr=Made(eqns=[], invars=[variable(100, 100), variable(8, 100)]))
    found = function.returned(compiled(parameters, batch, jaxpr=traced), (parameters, batch), {}, Array())
    assert found is not None
    seen = []
    for number in range(1, 100):
        seen.append(function.look((parameters, batch), {}))
        out = Array(100, 100)
        function.returned(None, (parameters, batch), {}, out)
        if number >= unused:
            parameters = out
    assert seen.count(True) == 1
    assert function.function.feeds_back
    assert found[0].examples == 8


def test_programs_of_a_function_that_trains_nothing_are_bounded(function: JaxFunction) -> None:
    for size in range(1, 2 * MOST_PROGRAMS):
        batch = Array(size, 100)
        function.look((batch,), {})
        function.returned(compiled(batch), (batch,), {}, Array(size))
    assert len(function._compiled) <= MOST_PROGRAMS


@pytest.mark.parametrize(("elements", "kept"), [(MOST_HELD, True), (MOST_HELD + 1, False)])
def test_large_results_of_calls_in_flight_are_the_trainings_to_free(
    monkeypatch: pytest.MonkeyPatch, elements: int, kept: bool
) -> None:
    class Pending(Array):
        def __init__(self) -> None:
            super().__init__(elements)
            self.size = elements

        def is_ready(self) -> bool:
            return False

    monkeypatch.setattr(calls.atexit, "register", lambda *_: None)
    monkeypatch.setattr(calls.os, "register_at_fork", lambda **_: None)
    watch = calls.JaxWatch(JAX, Marker())  # type: ignore[arg-type]
    function = JaxFunction(JAX, watch.marker, "train")
    out = watch.call(function, Pending, (), {}, compiled(Array(8)))
    gone = weakref.ref(out)
    assert watch.steps.queue
    del out
    assert (gone() is not None) == kept


def test_arguments_of_the_last_compilation_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: Any, jaxpr: Any) -> Any:
        return Array(), Made(xla_executable=None, cost_analysis=lambda: None)

    pjit = Made(_pjit_call_impl_python=run)
    monkeypatch.setitem(sys.modules, "jax._src.pjit", pjit)
    monkeypatch.setattr(calls.atexit, "register", lambda *_: None)
    monkeypatch.setattr(calls.os, "register_at_fork", lambda **_: None)
    watch = calls.JaxWatch(JAX, Marker())  # type: ignore[arg-type]
    calls._watch_compiler(watch)
    function = JaxFunction(JAX, watch.marker, "evaluate")
    inner = lambda one: pjit._pjit_call_impl_python(one, jaxpr=program())[0]  # noqa: E731
    watch.call(function, inner, (Array(8, 100),), {})
    assert function.known and watch.of_thread.compiled is None
    pjit._pjit_call_impl_python(Array(5), jaxpr=program())
    assert watch.of_thread.compiled is None, "it was compiled for no function that is watched"
