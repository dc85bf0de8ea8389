"""An optimizer's step ends a step of the training, also with Horovod's optimizer."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from roofline_agent.hooks import horovod_torch, torch_optimizer
from roofline_agent.hooks.torch_recorder import BACKWARD, OPTIMIZER, Recorder

from .doubles import RecordingMarker, during, optimizer_module


def test_an_optimizers_step_is_a_step(marker: RecordingMarker) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    one = module.Optimizer()
    for _ in range(3):
        one.step()
    assert [number for number, *_ in marker.borders] == [0, 1, 2]
    assert all([name for name, *_ in step] == [OPTIMIZER] for step in marker.steps)


def test_of_two_optimizers_the_first_counts(marker: RecordingMarker) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    one, two = module.Optimizer(), module.Optimizer()
    for _ in range(3):
        one.step()
        two.step()
    del one
    two.step()
    assert [number for number, *_ in marker.borders] == [0, 1, 2, 3]


def test_optimizer_inside_another_is_part_of_its_step(marker: RecordingMarker) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    outer, inner = module.Optimizer(), module.Optimizer()
    for _ in range(2):
        outer.step(inner.step)
    assert [number for number, *_ in marker.borders] == [0, 1]
    assert {name for name, *_ in marker.phases} == {OPTIMIZER}


def test_step_that_raised_leaves_nothing_behind(marker: RecordingMarker, record: Recorder) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    one = module.Optimizer()
    with pytest.raises(ZeroDivisionError):
        one.step(lambda: 1 / 0)
    one.step()
    assert [number for number, *_ in marker.borders] == [0]
    assert [name for name, *_ in marker.phases] == [OPTIMIZER]


class DistributedOptimizer:
    """As Horovod's: one step of it fires torch's hooks twice, and synchronizes in between."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def step(self, closure: Any = None) -> str:
        self.inner.step(self.inner.step)
        return "result"


@pytest.fixture
def with_horovod(marker: RecordingMarker, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Both modules, imported and hooked."""

    class Own(DistributedOptimizer):
        def __init__(self, inner: Any) -> None:
            super().__init__(inner)

        def step(self, closure: Any = None) -> str:
            return super().step(closure)

    module = optimizer_module()
    module.Distributed = module._DistributedOptimizer = Own
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    horovod_torch.patch(module, marker)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "horovod.torch", module)
    return module


def test_with_horovod_its_own_optimizer_counts(
    marker: RecordingMarker, record: Recorder, with_horovod: Any
) -> None:
    one = with_horovod.Optimizer()
    one.step()  # broadcast_optimizer_state makes a state to send
    spread = with_horovod.Distributed(one)
    one.step()  # or it does so now
    for at in (0, 100):
        during(record, BACKWARD, at, at + 10)
        assert spread.step() == "result"
    assert [number for number, *_ in marker.borders] == [0, 1]
    assert OPTIMIZER in {name for step in marker.steps for name, *_ in step}


def test_horovod_that_is_imported_and_not_used_counts_nothing(
    marker: RecordingMarker, record: Recorder, with_horovod: Any
) -> None:
    one = with_horovod.Optimizer()
    record.begun(0)
    for _ in range(2):
        one.step()
    assert [number for number, *_ in marker.borders] == [-1, 0, 1]


def test_numbers_go_on_when_horovod_takes_over(
    marker: RecordingMarker, record: Recorder, with_horovod: Any
) -> None:
    one = with_horovod.Optimizer()
    record.begun(0)
    one.step()
    copied = with_horovod.Distributed.__new__(with_horovod.Distributed)  # nobody saw it made
    copied.inner = one
    for _ in range(2):
        copied.step()
    one.step()
    assert [number for number, *_ in marker.borders] == [-1, 0, 1, 2]
