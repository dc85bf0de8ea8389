"""Examples of Horovod's tensor loops: the input of the first module that each step calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks.horovod.batches import CALLS, MODULES, PassedSizes
from roofline_agent.hooks.torch import module as torch_module
from roofline_agent.hooks.torch.recorder import Recorder


class Input:
    """A tensor."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


class Modules:
    """torch.nn.modules.module, and torch: hooks that are called before every module."""

    def __init__(self) -> None:
        self.hooks: list[Callable[..., None]] = []
        self.grad = True

    def register_module_forward_pre_hook(self, hook: Callable[..., None]) -> Any:
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def is_grad_enabled(self) -> bool:
        return self.grad

    def call(self, *inputs: Input) -> None:
        for hook in list(self.hooks):
            hook(object(), inputs)


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Modules:
    made = Modules()
    monkeypatch.setitem(sys.modules, MODULES, made)
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(torch_module, "at_compile", [])
    return made


def step(sizes: PassedSizes, record: Recorder) -> int | None:
    """The rest of a step: its backward, and its border."""
    record.batches.backward()
    found = record.batches.take()
    sizes.next_step()
    return found


def test_first_call_of_a_step_has_its_examples(modules: Modules, record: Recorder) -> None:
    sizes = PassedSizes(record)
    sizes.next_step()
    for size in (8, 8, 3):
        modules.call(Input(size, 4))
        assert modules.hooks == [], "later calls of the step pay nothing"
        modules.call(Input(99, 4))
        assert step(sizes, record) == size


def test_evaluation_between_is_not_taken_for_it(modules: Modules, record: Recorder) -> None:
    sizes = PassedSizes(record)
    sizes.next_step()
    modules.call(Input(8, 4))
    assert step(sizes, record) == 8
    modules.grad = False
    for _ in range(3):
        modules.call(Input(50, 4))
    modules.grad = True
    modules.call(Input(5, 4))
    assert step(sizes, record) == 5
    modules.grad = False
    for _ in range(CALLS):
        modules.call(Input(50, 4))
    assert modules.hooks == [], "a long evaluation does not pay for all its calls"
    assert step(sizes, record) == 5


def test_compiled_code_has_the_size_seen_last(modules: Modules, record: Recorder) -> None:
    sizes = PassedSizes(record)
    sizes.next_step()
    modules.call(Input(8, 4))
    assert step(sizes, record) == 8
    for call in torch_module.at_compile:
        call()
    assert modules.hooks == []
    sizes.next_step()
    assert modules.hooks == []
    assert step(sizes, record) == 8


def test_loader_knows_better(modules: Modules, record: Recorder) -> None:
    sizes = PassedSizes(record)
    loader = Modules()
    record.batches.fetched(loader, 7, 1)
    sizes.next_step()
    assert modules.hooks == []
    assert step(sizes, record) == 7
