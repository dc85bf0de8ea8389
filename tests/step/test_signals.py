"""What a signal's handler raises while our code runs goes on to the training; all else stays with us."""

from __future__ import annotations

import ast
import functools
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks import Marker, profilers
from roofline_agent.hooks.jax.programs import JaxExecutable
from roofline_agent.hooks.tf.updates import UpdateCounter
from roofline_step._sender import Sender
from roofline_step._signals import raise_again
from roofline_step.packets import Mark

NUMBER = signal.SIGUSR2


class Preempted(Exception):
    """Of a training."""


def plain(number: int, frame: FrameType | None) -> None:
    raise Preempted


def removes_itself(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    plain(0, None)


class Handler:
    def method(self, number: int, frame: FrameType | None) -> None:
        raise Preempted

    def __call__(self, *arguments: Any) -> None:
        raise Preempted


HANDLERS = {
    "function": plain,
    "removes itself": removes_itself,
    "method": Handler().method,
    "object": Handler(),
    "partial": functools.partial(lambda text, *rest: plain(*rest), "preempted"),
}


@pytest.fixture(params=HANDLERS)
def interrupts(request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """Call it, and a signal comes whose handler raises."""
    before = signal.signal(NUMBER, HANDLERS[request.param])
    yield lambda: signal.raise_signal(NUMBER)
    signal.signal(NUMBER, before)


def swallows(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:
        raise_again()


def test_what_a_handler_raises_goes_on(interrupts: Callable[[], None]) -> None:
    with pytest.raises(Preempted):
        swallows(interrupts)


def test_other_errors_are_swallowed() -> None:
    swallows(lambda: plain(1, None))
    swallows(lambda: int("x"))
    raise_again()


def test_sender_counts_the_mark_and_lets_it_through(
    interrupts: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = Sender(["/nowhere"])
    monkeypatch.setattr(sender, "_socket", SimpleNamespace(send=lambda packet: interrupts()))
    monkeypatch.setattr(sender, "_sure_ns", 1 << 62)
    mark: Mark = (3, 1, None, 1, None, False)
    with pytest.raises(Preempted):
        sender.send_step([mark], ())
    assert sender.dropped == 1
    sender._socket = None


def test_hook_lets_it_through_and_does_not_report_it(interrupts: Callable[[], None]) -> None:
    facts: list[object] = []
    step: Any = SimpleNamespace(said_by_training=lambda: False, send_fact=lambda *fact: facts.append(fact))
    marker = Marker(step, environ={})

    def hook(call: Callable[[], object]) -> None:
        try:
            call()
        except Exception:
            marker.failed("torch_data")

    with pytest.raises(Preempted):
        hook(interrupts)
    assert not facts
    hook(lambda: int("x"))
    assert len(facts) == 1


def test_hook_that_makes_way_for_the_profiler_of_the_training(interrupts: Callable[[], None]) -> None:
    owner = SimpleNamespace(start=lambda: pytest.fail("the training is interrupted before it begins one"))
    begin = owner.start
    profilers.make_way([owner], interrupts, "start")
    with pytest.raises(Preempted):
        owner.start()
    assert owner.start is begin  # ours is lost


def test_hook_that_waits_for_a_device(interrupts: Callable[[], None]) -> None:
    optimizer = functools.partial(int)
    optimizer._iterations = SimpleNamespace(numpy=interrupts)  # type: ignore[attr-defined]
    with pytest.raises(Preempted):
        UpdateCounter(optimizer).read()


def test_hook_that_has_a_program_analysed(interrupts: Callable[[], None]) -> None:
    program = JaxExecutable(SimpleNamespace(cost_analysis=interrupts), None, ())
    with pytest.raises(Preempted):
        program.cost(1, mapped=False)


IN_TRAININGS = Path(__file__).parents[2] / "agent"
GO_ON = ("raise_again", "failed", "_fail", "_let_through")
# Of a process that ends whatever happens; as the exception is looked at; of a microsecond at an import.
MAY_SWALLOW = {"_exit", "_let_through", "_prints_to_wrapper"}


def _swallowing(tree: ast.AST) -> Iterator[ast.ExceptHandler]:
    """What catches exceptions that a signal's handler may raise; TimeoutError is an OSError."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name in MAY_SWALLOW:
            function.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            names = (
                {one.id for one in ast.walk(node.type) if isinstance(one, ast.Name)} if node.type else {""}
            )
            if names & {"", "BaseException", "Exception", "OSError", "TimeoutError"}:
                yield node


def _goes_on(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        return getattr(function, "attr", getattr(function, "id", "")) in GO_ON
    return isinstance(node, ast.Raise)


@pytest.mark.parametrize("folder", ["roofline_step", "roofline_agent/hooks"])
def test_nothing_in_a_training_swallows_what_handlers_raise(folder: str) -> None:
    found, swallowed = 0, []
    for path in sorted((IN_TRAININGS / folder).rglob("*.py")):
        for handler in _swallowing(ast.parse(path.read_text())):
            found += 1
            if not any(map(_goes_on, ast.walk(handler))):
                swallowed.append(f"{path.relative_to(IN_TRAININGS)}:{handler.lineno}")
    assert found > 10
    assert swallowed == []
