"""Updates that an optimizer makes of several gradients."""

from __future__ import annotations

from types import SimpleNamespace as Made

import pytest
from roofline_agent.hooks.tf.accumulation import Accumulation
from roofline_agent.hooks.tf.calls import TrainingCall
from roofline_agent.hooks.tf.eager import EagerLoop
from roofline_agent.hooks.tf.steps import steps


class Optimizer:
    gradient_accumulation_steps = 3


@pytest.mark.parametrize("optimizer", [None, object(), Made(gradient_accumulation_steps=None)])
def test_each_gradient_is_an_update_as_a_rule(optimizer: object) -> None:
    accumulation = Accumulation(optimizer, 7)
    assert [accumulation.updates(gradients) for gradients in (1, 1, 5)] == [1, 1, 5]


@pytest.mark.parametrize("optimizer", [Optimizer(), Made(inner_optimizer=Optimizer())])
def test_update_is_made_of_the_last_of_its_gradients(optimizer: object) -> None:
    accumulation = Accumulation(optimizer)
    assert [accumulation.updates(1) for _ in range(7)] == [0, 0, 1, 0, 0, 1, 0]
    assert [accumulation.updates(5), accumulation.updates(4)] == [2, 1]


def test_gradients_from_before_count() -> None:
    accumulation = Accumulation(Optimizer(), 5)
    assert [accumulation.updates(1) for _ in range(4)] == [1, 0, 0, 1]


def test_eager_loop_steps_with_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(steps, "ended", lambda marker, key, call: seen.append(call.updates))
    loop, optimizers = EagerLoop(), (Optimizer(), object())
    for _ in range(4):
        for one in optimizers:
            loop.updated(None, one, 1, 2)  # type: ignore[arg-type]
    assert seen == [0, 1, 0, 1, 1, 1, 0, 1]


@pytest.mark.parametrize("in_functions", [False, True])
def test_eager_update_is_of_gradients_that_functions_took_only_if_none_was_eager(
    monkeypatch: pytest.MonkeyPatch, in_functions: bool
) -> None:
    seen: list[TrainingCall] = []
    monkeypatch.setattr(steps, "ended", lambda marker, key, call: seen.append(call))
    monkeypatch.setattr(steps, "_carried", [(32, "a micro-batch")])  # a gradient without an update, so far
    loop, variable, optimizer = EagerLoop(), Optimizer(), object()
    if not in_functions:
        loop.gradient(Made(), variable, TrainingCall(1, 2), may_update=True)  # type: ignore[arg-type]
    loop.updated(Made(), optimizer, 3, 4)  # type: ignore[arg-type]
    assert [(call.only_updates, call.examples) for call in seen] == [
        (in_functions, 0 if in_functions else None)
    ]
