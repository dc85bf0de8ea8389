"""Doubles that the tests of PyTorch's hooks share: a marker that remembers, parts of torch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from roofline_agent.hooks.marker import NoAccount
from roofline_agent.hooks.torch.batches import Batches
from roofline_agent.hooks.torch.phases import BACKWARD, INPUT, OPTIMIZER
from roofline_agent.hooks.torch.recorder import Recorder


class RecordingMarker:
    """A Marker that remembers."""

    def __init__(self) -> None:
        self.borders: list[tuple[int, int | None, int | None]] = []
        self.steps: list[list[tuple[str, int, int, int | None, int]]] = []
        self.facts: dict[str, object] = {}
        self.notes = self.flushes = 0
        self.said: dict[str, object] = {}  # which rank it is
        self.account: Any = NoAccount()
        self.stall: tuple[int, int] | None = None  # behind the last border, for a trace
        self.likes: list[int] = []
        self.begins: dict[int, int] = {}  # of steps that did not begin with the border before them
        self._signatures: dict[Any, int] = {}

    def like(self, signature: Any) -> int:
        return self._signatures.setdefault(signature, len(self._signatures) + 1)

    def over(self, number: int, now: int) -> Any:
        return self.account.over(number, now)

    def layout(self, *_: Any) -> None:
        """Every step is told by itself."""

    def border(
        self,
        number: int,
        examples: int | None = None,
        time_ns: int | None = None,
        like: int = 0,
        begin_ns: int | None = None,
    ) -> None:
        self.borders.append((number, examples, time_ns))
        self.likes.append(like)
        if begin_ns is not None:
            self.begins[number] = begin_ns

    def spans(self, spans: Any) -> None:
        self.steps.append(sorted(spans, key=lambda span: span[1]))

    def fact(self, name: str, value: object) -> None:
        self.facts[name] = value

    def variables(self, **variables: object) -> None:
        self.said = variables

    def failed(self, hook: str) -> None:
        self.facts["hook." + hook] = "failed"

    def note(self) -> None:
        self.notes += 1

    def flush(self) -> None:
        self.flushes += 1

    def traces_with(self, framework: str) -> None:
        self.framework = framework

    def take_stall(self) -> tuple[int, int] | None:
        stall, self.stall = self.stall, None
        return stall

    @property
    def phases(self) -> list[tuple[str, int, int]]:
        """Of the last step."""
        return [span[:3] for span in self.steps[-1] if span[0].startswith("phase.")]


def during(record: Recorder, name: str, begin: int, end: int) -> None:
    record.enter(name, begin)
    record.leave(end)


def step(record: Recorder, at: int) -> None:
    """Input, forward, backward and optimizer of 10 each, from `at` on."""
    during(record, INPUT, at, at + 10)
    record.forward(at + 10)
    during(record, BACKWARD, at + 20, at + 30)
    during(record, OPTIMIZER, at + 30, at + 40)
    record.stepped(at + 40)


class DataIterator:
    """Stands for a DataLoader's."""


def use(batches: Batches, backwards: int = 1) -> int | None:
    for _ in range(backwards):
        batches.backward()
    return batches.take()


def tensor(*shape: int) -> Any:
    return SimpleNamespace(shape=shape)


def grad_is(on: bool) -> Any:
    """A torch whose gradients are on, or off: `on` may be changed."""
    torch = SimpleNamespace(on=on)
    torch.is_grad_enabled = lambda: torch.on
    return torch


def optimizer_module() -> Any:
    hooks: Any = SimpleNamespace(before=[], after=[])

    class Optimizer:
        def step(self, closure: Any = None) -> None:
            for hook in hooks.before:
                hook(self, (), {})
            if closure:
                closure()
            for hook in hooks.after:
                hook(self, (), {})

    return SimpleNamespace(
        Optimizer=Optimizer,
        register_optimizer_step_pre_hook=hooks.before.append,
        register_optimizer_step_post_hook=hooks.after.append,
    )


class Tensor:
    def __init__(self, count: int, cpu: bool = True) -> None:
        self.count, self.is_cpu = count, cpu

    def numel(self) -> int:
        return self.count

    def element_size(self) -> int:
        return 4


def parameter(count: int, device: str = "cpu") -> Any:
    one: Any = Tensor(count)
    one.requires_grad, one.device = True, SimpleNamespace(type=device)
    return one
