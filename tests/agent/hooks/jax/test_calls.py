"""Calls of JAX's compiled functions by several threads: the steps are those of the one that trains."""

from __future__ import annotations

import copy
import functools
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace as Made
from typing import Any

import pytest
from roofline_agent.hooks.jax import calls
from roofline_agent.hooks.jax.programs import JaxExecutable, JaxFunction

from .doubles import JAX, Array, RecordingMarker, program, variable


class Noting(RecordingMarker):
    """A marker of which an error is an error."""

    def like(self, signature: Any) -> int:
        return 1

    def kernel(self, **_: Any) -> None:
        """Not sent."""

    def failed(self, hook: str) -> None:
        raise AssertionError(hook) from sys.exc_info()[1]


class Process:
    """Threads that call compiled functions."""

    def __init__(self) -> None:
        self.marker = Noting()
        self.watch = calls.JaxWatch(JAX, self.marker)  # type: ignore[arg-type]

    def training(self, name: str, flops: int) -> Callable[[int], None]:
        """A function that calls itself so often with its own results."""
        function = JaxFunction(JAX, self.marker, name)  # type: ignore[arg-type]
        state = Array(100, 100)
        jaxpr = program(invars=[variable(100, 100)])
        compiled = JaxExecutable(Made(cost_analysis=lambda: {"flops": float(flops)}), jaxpr, (state,))

        def train(times: int) -> None:
            nonlocal state
            for _ in range(times):
                first = None if function.known else compiled
                state = self.watch.call(function, lambda _: Array(100, 100), (state,), {}, first)

        return train

    def steps(self) -> int:
        self.watch.steps.finish(calls._now())
        assert [number for number, _, _ in self.marker.borders] == list(
            range(-1, len(self.marker.borders) - 1)
        )
        ends = [end for _, end, _ in self.marker.borders]
        assert ends == sorted(ends)
        return len(ends) - 1


def elsewhere(work: Callable[[int], None], times: int) -> None:
    thread = threading.Thread(target=work, args=(times,))
    thread.start()
    thread.join()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    monkeypatch.setattr(calls.atexit, "register", lambda *_: None)
    monkeypatch.setattr(calls.os, "register_at_fork", lambda **_: None)
    return Process()


@pytest.mark.parametrize("before", [2, 5])
def test_training_goes_on_in_another_thread(process: Process, before: int) -> None:
    train = process.training("train", 1000)
    train(before)
    elsewhere(train, 20)
    assert process.steps() == before + 20
    elsewhere(train, 20)
    train(5)
    elsewhere(train, 20)
    assert process.steps() == before + 60, "few calls between those of a thread are not seen"


def test_training_beside_a_thread_that_prepares_batches(process: Process) -> None:
    augment, train = process.training("augment", 10), process.training("train", 1000)
    elsewhere(augment, 5)
    go, gone = threading.Semaphore(0), threading.Semaphore(0)

    def prepare(times: int) -> None:
        for _ in range(times):
            go.acquire()
            augment(1)
            gone.release()

    thread = threading.Thread(target=prepare, args=(40,))
    thread.start()
    for _ in range(40):
        go.release()
        gone.acquire()
        train(1)
    thread.join()
    assert process.marker.facts == {"steps.of": "train"}
    assert process.watch.thread == threading.get_ident()
    assert process.watch.steps.election.steps_led() >= 30, "from its eighth call on"
    assert process.steps() >= 33


def test_thread_that_does_less_trains_once_the_other_has_ended(process: Process) -> None:
    augment, train = process.training("augment", 10), process.training("train", 1000)
    trained, idle = threading.Event(), threading.Event()

    def work() -> None:
        train(5)
        trained.set()
        idle.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    assert trained.wait(30)
    augment(100)
    assert process.watch.thread == thread.ident, "it may run ahead of a training that is busy"
    idle.set()
    thread.join()
    augment(2)
    assert process.watch.thread == threading.get_ident()


def test_training_beside_a_thread_that_calls_more_often(process: Process) -> None:
    """As the one that acts does in reinforcement learning."""
    act, train = process.training("act", 10), process.training("train", 100_000)
    elsewhere(act, 50)
    acted = threading.Semaphore(0)
    go, end = threading.Semaphore(0), threading.Event()

    def work() -> None:
        while go.acquire(timeout=30) and not end.is_set():
            act(50)
            acted.release()

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(40):
        go.release()
        assert acted.acquire(timeout=30)
        train(1)
    assert process.watch.thread == threading.get_ident()
    assert process.marker.facts == {"steps.of": "train"}
    assert process.watch.steps.election.steps_led() >= 30
    end.set()
    go.release()
    thread.join()


def test_stages_of_another_version_of_jax_work_all_the_same(process: Process) -> None:
    class Lowered:
        def compile(self) -> str:
            return "compiled"

    class Traced:
        def lower(self) -> Lowered:
            return Lowered()

    failed: list[str] = []
    process.marker.failed = failed.append  # type: ignore[method-assign]
    stages = Made(Traced=Traced, Lowered=Lowered, Compiled=type("Compiled", (), {"__call__": len}))
    process.watch.jax = Made(stages=stages)
    calls._watch_ahead_of_time(process.watch)
    assert Traced().lower().compile() == "compiled"
    assert failed == ["jax_calls"] * 2


def test_decorated_function_has_nothing_of_ours(process: Process) -> None:
    function = JaxFunction(JAX, process.marker, "train")  # type: ignore[arg-type]
    jitted = calls.JittedFunction(process.watch, lambda one: one, function)

    @functools.wraps(jitted)
    def timed(*args: Any) -> Any:
        return jitted(*args)

    assert "_roofline" not in vars(timed)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_calls_of_a_copy_are_seen(process: Process, copied: Callable[[Any], Any]) -> None:
    def step(state: Array) -> Array:
        return Array(100, 100)

    function = JaxFunction(JAX, process.marker, "train")  # type: ignore[arg-type]
    jitted = copied(calls.JittedFunction(process.watch, step, function))
    process.watch.of_thread.compiled = JaxExecutable(None, program(invars=[variable(100, 100)]), ())
    state = Array(100, 100)
    for _ in range(5):
        state = jitted(state)
    assert process.steps() == 5
    assert jitted.__name__ == "step"
