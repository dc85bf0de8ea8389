"""An optimizer's step ends a step of the training, also with Horovod's optimizer."""

from __future__ import annotations

import copy
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks.horovod import torch as horovod_torch
from roofline_agent.hooks.torch import autograd as torch_autograd
from roofline_agent.hooks.torch import graphs as torch_graphs
from roofline_agent.hooks.torch import optimizer as torch_optimizer
from roofline_agent.hooks.torch import scaler as torch_scaler
from roofline_agent.hooks.torch.phases import BACKWARD, OPTIMIZER
from roofline_agent.hooks.torch.recorder import Recorder, recorder

from ..doubles import DeferringMarker, RecordingMarker, during, optimizer_module


def test_an_optimizers_step_is_a_step(marker: RecordingMarker) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    one = module.Optimizer()
    for _ in range(3):
        one.step()
    assert [number for number, *_ in marker.borders] == [0, 1, 2]
    assert all([name for name, *_ in step] == [OPTIMIZER] for step in marker.steps)


def test_two_optimizers_are_one_step_that_ends_with_the_second(
    marker: RecordingMarker, record: Recorder
) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    one, two = module.Optimizer(), module.Optimizer()
    for at in range(3):
        during(record, BACKWARD, at, at)
        one.step()
        two.step()
    assert [number for number, *_ in marker.borders] == [0, 1], "the third may go on"
    record.borders.commit()
    assert [number for number, *_ in marker.borders] == [0, 1, 2]
    assert all([name for name, *_ in step] == [OPTIMIZER, OPTIMIZER] for step in marker.steps)
    times = [time for _, _, time in marker.borders]
    assert all(step[-1][2] == time for step, time in zip(marker.steps, times, strict=True)), (
        "each ends with its own update"
    )


@pytest.mark.parametrize(
    "copied", [copy.copy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"]
)
def test_copied_optimizer_takes_part_like_any_other(
    copied: Any, marker: RecordingMarker, record: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = optimizer_module()
    module.Optimizer.__setstate__ = lambda self, state: vars(self).update(state)
    module.Optimizer.__qualname__ = "Optimizer"
    monkeypatch.setattr(
        sys.modules[module.Optimizer.__module__], "Optimizer", module.Optimizer, raising=False
    )
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    one = module.Optimizer()
    one.rate = 0.1
    two = copied(one)
    for _ in range(3):
        one.step()
        two.step()
    record.borders.commit()
    assert [number for number, *_ in marker.borders] == [0, 1, 2]


def test_optimizer_that_loads_its_state_is_none_more(marker: RecordingMarker, record: Recorder) -> None:
    module = optimizer_module()
    module.Optimizer.__setstate__ = lambda self, state: vars(self).update(state)
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    one, two = module.Optimizer(), module.Optimizer()
    one.step()
    one.__setstate__({"rate": 0.1})
    two.step()
    record.borders.commit()
    assert [number for number, *_ in marker.borders] == [0]


def test_held_border_is_sent_when_a_training_makes_another_optimizer(marker: RecordingMarker) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    kept = [module.Optimizer(), module.Optimizer()]
    for one in kept:
        one.step()
    kept.append(module.Optimizer())
    assert [number for number, *_ in marker.borders] == [0]


def test_update_before_the_first_backward_is_no_step(marker: RecordingMarker) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    autograd: Any = SimpleNamespace(backward=lambda tensors: None)
    torch_autograd.patch(autograd, marker)
    one, two = module.Optimizer(), module.Optimizer()
    for made in (one, two):
        made.step()  # so that it has a state to be loaded into
    for _ in range(2):
        autograd.backward(None)
        one.step()
        two.step()
    autograd.backward(None)
    one.step()
    assert [number for number, *_ in marker.borders] == [-1, 0, 1]
    assert [name for name, *_ in marker.steps[1]] == [BACKWARD, OPTIMIZER, OPTIMIZER]


def test_update_behind_a_backward_whose_end_nobody_noted_ends_its_step(
    marker: RecordingMarker, record: Recorder
) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    autograd: Any = SimpleNamespace(backward=lambda tensors: None)
    torch_autograd.patch(autograd, marker)
    one = module.Optimizer()
    autograd.backward(None)
    record.in_backward = True  # an exception came where it was to be cleared
    one.step()
    assert [number for number, *_ in marker.borders] == [-1, 0]


def test_optimizers_inside_a_backward_are_one_update(marker: RecordingMarker) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    many = [module.Optimizer() for _ in range(3)]

    def run(tensors: Any) -> None:
        for one in many:
            one.step()

    autograd: Any = SimpleNamespace(backward=run)
    torch_autograd.patch(autograd, marker)
    for _ in range(30):
        autograd.backward(None)
    recorder(marker).borders.commit()  # type: ignore[arg-type]
    assert [number for number, *_ in marker.borders] == list(range(-1, 30))
    assert {name for step in marker.steps for name, *_ in step} == {BACKWARD}


def test_update_that_a_scaler_leaves_out_ends_a_step(marker: RecordingMarker, record: Recorder) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]

    class GradScaler:
        def step(self, optimizer: Any, overflow: bool) -> str:
            if not overflow:
                optimizer.step()
            return "result"

    amp: Any = SimpleNamespace(GradScaler=GradScaler)
    torch_scaler.patch(amp, marker)  # type: ignore[arg-type]
    one = module.Optimizer()
    record.begun(0)
    assert [GradScaler().step(one, overflow) for overflow in (False, True, False)] == ["result"] * 3
    assert [number for number, *_ in marker.borders] == [-1, 0, 1, 2]
    assert marker.facts["steps.skipped"] == 1


def test_replay_of_a_graph_with_an_update_is_a_step(marker: RecordingMarker) -> None:
    """A stand-in for CUDA's graphs: there is no GPU here."""
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]

    class CUDAGraph:
        def capture_begin(self) -> None: ...

        def capture_end(self) -> None: ...

        def replay(self) -> str:
            return "result"

    cuda: Any = SimpleNamespace(CUDAGraph=CUDAGraph)
    torch_graphs.patch(cuda, marker)  # type: ignore[arg-type]
    one, whole, part = module.Optimizer(), CUDAGraph(), CUDAGraph()
    recorder(marker).begun(0)  # type: ignore[arg-type]
    one.step()  # warms up
    for graph in (whole, part):
        graph.capture_begin()
        if graph is whole:
            one.step()
        graph.capture_end()
    assert [number for number, *_ in marker.borders] == [-1, 0], "what is captured is not done"
    assert [graph.replay() for graph in (part, whole, part, whole)] == ["result"] * 4
    assert [number for number, *_ in marker.borders] == [-1, 0, 1, 2]
    part.replay()
    one.step()
    assert [number for number, *_ in marker.borders] == [-1, 0, 1, 2, 3], "of a forward alone"


def test_optimizer_that_replaces_one_that_raised_is_counted(marker: RecordingMarker) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        module.Optimizer().step(lambda: 1 / 0)
    other = module.Optimizer()
    for _ in range(20):
        other.step()
    assert len(marker.borders) >= 15


def test_optimizer_inside_another_is_part_of_its_step(marker: RecordingMarker) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    outer, inner = module.Optimizer(), module.Optimizer()
    for _ in range(2):
        outer.step(inner.step)
    assert [number for number, *_ in marker.borders] == [0, 1]
    assert {name for name, *_ in marker.phases} == {OPTIMIZER}


def deriving(base: Any) -> Any:
    """An optimizer whose step() calls that of its base; both are hooked."""

    class Derived(base):
        def step(self, closure: Any = None) -> None:
            super().step(lambda: super(Derived, self).step(closure))

    return Derived


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("marks", [RecordingMarker, DeferringMarker])
def test_optimizer_that_calls_the_step_of_its_base_makes_one_step(marks: Any, depth: int) -> None:
    marker = marks()
    module = optimizer_module()
    torch_optimizer.patch(module, marker)
    derived = module.Optimizer
    for _ in range(depth):
        derived = deriving(derived)
    one = derived()
    for _ in range(30):
        one.step()
    recorder(marker).borders.hand_over()
    assert [number for number, *_ in marker.borders] == list(range(30))
    assert {name for step in marker.steps for name, *_ in step} == {OPTIMIZER}


def test_optimizer_that_calls_the_step_of_its_base_takes_turns_with_others(
    marker: RecordingMarker, record: Recorder
) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    one, two = deriving(module.Optimizer)(), module.Optimizer()
    for _ in range(30):
        one.step()
        two.step()
    record.borders.commit()
    assert [number for number, *_ in marker.borders] == list(range(30))


@pytest.mark.parametrize("derives", [False, True])
@pytest.mark.parametrize("marks", [RecordingMarker, DeferringMarker])
def test_update_that_raised_and_is_made_again_is_one_step(marks: Any, derives: bool) -> None:
    marker = marks()
    module = optimizer_module()
    torch_optimizer.patch(module, marker)
    one = deriving(module.Optimizer)() if derives else module.Optimizer()
    for _ in range(20):
        for _ in range(5):
            with pytest.raises(ZeroDivisionError):
                one.step(lambda: 1 / 0)
        one.step()
        one.step()
    recorder(marker).borders.hand_over()
    assert [number for number, *_ in marker.borders] == list(range(40))


def test_step_that_raised_leaves_nothing_behind(marker: RecordingMarker, record: Recorder) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    one = module.Optimizer()
    with pytest.raises(ZeroDivisionError):
        one.step(lambda: 1 / 0)
    one.step()
    record.borders.commit()
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
