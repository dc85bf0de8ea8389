"""What a signal's handler raises while our code runs goes on to the training; all else stays with us."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks import Marker
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
