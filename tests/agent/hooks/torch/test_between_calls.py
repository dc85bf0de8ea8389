"""Evaluations and checkpoints between steps, as the hooks see them in made-up parts of torch."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks.torch import between_calls as torch_between_calls
from roofline_agent.hooks.torch import data as torch_data
from roofline_agent.hooks.torch import deepspeed as torch_deepspeed
from roofline_agent.hooks.torch import grad_mode as torch_grad_mode
from roofline_agent.hooks.torch import module as torch_module
from roofline_agent.hooks.torch.between_steps import CHECKPOINT, EVALUATION, OTHER, WITHOUT_GRADIENTS
from roofline_agent.hooks.torch.phases import BACKWARD, INPUT
from roofline_agent.hooks.torch.recorder import Recorder

from ..doubles import RecordingMarker, during, grad_is, optimizer_module, step, tensor

MS = 10**6
now = time.monotonic_ns


class Loader:
    """Of batches of these sizes; a batch takes 2 ms."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)

    def __next__(self) -> Any:
        time.sleep(0.002)
        if not self.sizes:
            raise StopIteration
        return [tensor(self.sizes.pop(0), 3)]


@pytest.fixture
def torch(marker: RecordingMarker, record: Recorder) -> Any:
    """Hooked parts of torch, after steps 0 to 2 of 40 ns each."""

    class Module:
        def __init__(self, *parts: Any) -> None:
            self.parts = parts

        def train(self, mode: bool = True) -> Module:
            for part in self.parts:
                part.train(mode)
            return self

        def eval(self) -> Module:
            return self.train(False)

    class Mode:
        def __enter__(self) -> None: ...

        def __exit__(self, *error: Any) -> None: ...

    made = SimpleNamespace(
        _BaseDataLoaderIter=Loader,
        Module=Module,
        no_grad=type("no_grad", (Mode,), {}),
        inference_mode=type("inference_mode", (Mode,), {}),
        register_module_forward_pre_hook=lambda _: None,
        torch=grad_is(True),
        save=lambda: time.sleep(0.002),
        __name__="torch.serialization",
    )
    fetch = Loader.__next__
    for patch in (torch_data.patch, torch_grad_mode.patch, torch_module.patch, torch_between_calls.patch):
        patch(made, marker)  # type: ignore[arg-type]
    record.begun(0)
    for at in (0, 100, 200):
        step(record, at)
    record.steps.border_ns = made.border = now()
    yield made
    Loader.__next__ = fetch  # type: ignore[method-assign]


def train(record: Recorder) -> int:
    """A step from now on: when it began."""
    begin = now()
    during(record, INPUT, begin, begin + 10)
    during(record, BACKWARD, begin + 20, begin + MS)
    record.stepped(begin + 2 * MS)
    return begin


def seen(marker: RecordingMarker) -> dict[str, int]:
    """Milliseconds before the last step, by kind."""
    found: dict[str, int] = {}
    for name, begin, end, _, _ in marker.steps[-1]:
        if name.startswith("between."):
            found[name] = found.get(name, 0) + (end - begin) // MS
    return found


def begins(marker: RecordingMarker, after: int, until: int) -> bool:
    return after <= marker.begins.get(3, 0) <= until


def test_loader_without_gradients_is_an_evaluation(
    torch: Any, record: Recorder, marker: RecordingMarker
) -> None:
    torch.torch.on = False
    for _ in range(3):
        next(Loader(5))
    ended = now()
    assert train(record) >= ended
    assert begins(marker, torch.border + 5 * MS, ended)
    assert seen(marker)[EVALUATION] >= 5
    named = {name for name, *_ in marker.steps[-1]}
    assert named - {OTHER} == {EVALUATION, INPUT, BACKWARD}, "a busy machine may leave a gap before it"


def test_loader_that_is_never_trained_on_is_an_evaluation(
    torch: Any, record: Recorder, marker: RecordingMarker
) -> None:
    validation = Loader(5, 5)
    with pytest.raises(StopIteration):
        while True:
            next(validation)
    train(record)
    assert seen(marker)[EVALUATION] >= 5
    assert [name for name, *_ in marker.phases] == [INPUT, BACKWARD], "of the training alone"


@pytest.mark.parametrize("how", ["no_grad", "inference_mode", "eval"])
def test_evaluation_without_a_loader(torch: Any, record: Recorder, marker: RecordingMarker, how: str) -> None:
    model = torch.Module(torch.Module(), torch.Module())
    if how == "eval":
        model.eval()
        time.sleep(0.006)
        model.train()
    else:
        with getattr(torch, how)(), torch.no_grad():
            time.sleep(0.006)
    train(record)
    assert seen(marker)[EVALUATION if how == "eval" else WITHOUT_GRADIENTS] >= 5
    train(record)
    assert list(marker.begins) == [3]


def test_model_that_is_trained_in_eval_mode_was_not_evaluated(
    torch: Any, record: Recorder, marker: RecordingMarker
) -> None:
    torch.Module().eval()
    time.sleep(0.006)
    record.trains_again()
    train(record)
    assert marker.begins == {}


def test_gradients_off_inside_a_forward_are_no_evaluation(
    torch: Any, record: Recorder, marker: RecordingMarker
) -> None:
    record.forward(now())
    with torch.no_grad():
        time.sleep(0.006)
    train(record)
    assert marker.begins == {}


def test_evaluation_inside_a_step_is_in_it(torch: Any, record: Recorder, marker: RecordingMarker) -> None:
    during(record, BACKWARD, now(), now() + 1)
    torch.Module().eval()
    with torch.no_grad():
        time.sleep(0.004)
    torch.Module().train()
    torch.save()
    train(record)
    assert marker.begins == {} and seen(marker) == {}


def test_checkpoint_with_what_prepares_it(torch: Any, record: Recorder, marker: RecordingMarker) -> None:
    time.sleep(0.004)
    for _ in range(2):
        torch.save()
    train(record)
    assert seen(marker)[CHECKPOINT] >= 8
    assert OTHER not in seen(marker)


def test_saving_that_fails_fails_as_ever(torch: Any, record: Recorder, marker: RecordingMarker) -> None:
    broken = SimpleNamespace(save=lambda: 1 / 0, __name__="torch.serialization")
    torch_between_calls.patch(broken, marker)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        broken.save()


def test_deepspeeds_update_is_one_whatever_it_steps(marker: RecordingMarker, record: Recorder) -> None:
    from roofline_agent.hooks.torch import optimizer as torch_optimizer

    module = optimizer_module()
    torch_optimizer.patch(module, marker)  # type: ignore[arg-type]
    inner = module.Optimizer()

    class DeepSpeedEngine:
        def _take_model_step(self, groups: int) -> str:
            for _ in range(groups):
                inner.step()
            if groups == 7:
                raise OverflowError
            return "result"

        def save_checkpoint(self) -> None: ...

    deepspeed: Any = SimpleNamespace(DeepSpeedEngine=DeepSpeedEngine, __name__="deepspeed.runtime.engine")
    torch_deepspeed.patch(deepspeed, marker)  # type: ignore[arg-type]
    engine = DeepSpeedEngine()
    assert [engine._take_model_step(groups) for groups in (1, 9, 0)] == ["result"] * 3
    with pytest.raises(OverflowError):
        engine._take_model_step(7)
    engine._take_model_step(2)
    assert [number for number, *_ in marker.borders] == [0, 1, 2, 3]
