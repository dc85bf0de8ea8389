"""Updates without an optimizer, seen from a leaf of the graph."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks.torch import optimizer as torch_optimizer
from roofline_agent.hooks.torch.by_hand import UNSURE
from roofline_agent.hooks.torch.phases import BACKWARD, OPTIMIZER
from roofline_agent.hooks.torch.recorder import Recorder

from ..doubles import RecordingMarker, during, optimizer_module


class Parameter:
    """Of torch: a version that grows with each change, and a gradient."""

    def __init__(self) -> None:
        self._version = 0
        self.grad: Any = None

    def gets_gradient(self) -> None:
        self.grad = self.grad or SimpleNamespace(_version=0)
        self.grad._version += 1


class Node:
    """Of a graph."""

    variable: Any = None

    def __init__(self, *following: Node | None) -> None:
        self.next_functions = [(one, 0) for one in following]


class Training:
    """A backward of 10 at `at`, then what the training does with the gradients."""

    def __init__(self, record: Recorder) -> None:
        self.record, self.leaf = record, Parameter()
        end = Node()
        end.variable = self.leaf
        self.roots = [SimpleNamespace(grad_fn=Node(end, None))]

    def backward(self, at: int) -> None:
        if self.record.by_hand is not None:
            self.record.by_hand.begins()
        during(self.record, BACKWARD, at, at + 10)
        self.leaf.gets_gradient()
        if self.record.by_hand is not None:
            self.record.by_hand.ended(at + 10, self.roots)

    def update(self, at: int) -> None:
        self.leaf._version += 1
        self.leaf.grad = None
        if self.record.by_hand is not None:
            self.record.by_hand.without_gradients(at, at + 5)


@pytest.fixture
def training(record: Recorder) -> Training:
    record.begun(0)
    return Training(record)


def steps(marker: RecordingMarker) -> list[tuple[int, int | None]]:
    return [(number, time) for number, _, time in marker.borders]


def test_step_ends_with_the_change_made_without_gradients(
    training: Training, marker: RecordingMarker
) -> None:
    for at in range(0, 600, 100):
        training.backward(at)
        training.update(at + 20)
    assert steps(marker) == [(-1, 0), *((k, 100 * k + 25) for k in range(6))]
    assert marker.phases == [(BACKWARD, 500, 510), (OPTIMIZER, 520, 525)]
    assert marker.facts["steps.seen_by"] == "backward"


def test_nothing_is_marked_until_it_is_sure(training: Training, marker: RecordingMarker) -> None:
    for at in range(0, 100 * UNSURE, 100):
        training.backward(at)
        training.update(at + 20)
    assert steps(marker) == [(-1, 0)]


def test_backwards_between_two_updates_are_one_step(training: Training, marker: RecordingMarker) -> None:
    """Zeroed gradients show it, and the border is at the end of the last backward before."""
    for at in range(0, 1000, 100):
        training.backward(at)
        training.backward(at + 30)
        training.leaf.grad = None
    training.record.by_hand.finish()
    assert steps(marker) == [(-1, 0), *((k, 100 * k + 40) for k in range(10))]


def test_other_stretches_without_gradients_end_no_step(training: Training, marker: RecordingMarker) -> None:
    for at in range(0, 600, 100):
        training.backward(at)
        training.record.by_hand.without_gradients(at + 12, at + 13)
        training.update(at + 20)
        training.record.by_hand.without_gradients(at + 32, at + 33)
    assert steps(marker) == [(-1, 0), *((k, 100 * k + 25) for k in range(6))]


@pytest.mark.parametrize("by_hand", [2, 8], ids=["before it was sure", "after"])
def test_an_optimizer_takes_over(training: Training, marker: RecordingMarker, by_hand: int) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    for at in range(0, 100 * by_hand, 100):
        training.backward(at)
        training.update(at + 20)
    optimizer, sent = module.Optimizer(), len(marker.borders) - 1
    assert sent == (0 if by_hand == 2 else 8)
    for at in range(1000, 1300, 100):
        training.backward(at)
        training.leaf.grad = None
        optimizer.step()
    assert [number for number, *_ in marker.borders] == list(range(-1, sent + 3))


def test_training_with_an_optimizer_is_not_followed(record: Recorder, marker: RecordingMarker) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    kept = module.Optimizer()
    record.begun(0)
    assert record.by_hand is None and kept
