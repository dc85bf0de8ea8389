"""Fetches of a DataLoader are the input of the step that uses them."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from roofline_agent.hooks.torch import data as torch_data
from roofline_agent.hooks.torch import module as torch_module
from roofline_agent.hooks.torch.phases import BACKWARDS, FETCHED, INPUT, INPUTS
from roofline_agent.hooks.torch.recorder import Recorder

from ..doubles import RecordingMarker, loader_module, tensor


class Ragged:
    """A batch that has no shape to be asked for, as a nested tensor of torch."""

    @property
    def shape(self) -> Any:
        raise RuntimeError("NestedTensorImpl doesn't support sizes")


def test_fetches_are_input_and_make_examples(marker: RecordingMarker, record: Recorder) -> None:
    module = loader_module()
    torch_data.patch(module, marker)  # type: ignore[arg-type]
    one = module._BaseDataLoaderIter(8, 7)
    for size in (8, 7):
        assert next(one).shape == (size,)
        record.batches.backward()
        record.stepped(0)
        assert (marker.borders[-1][1], marker.phases[0][0]) == (size, INPUT)
    with pytest.raises(StopIteration):
        next(one)


@pytest.mark.parametrize("beside", [False, True], ids=["here", "in another thread"])
def test_iterator_that_begins_anew_has_nothing_left(
    marker: RecordingMarker, record: Recorder, beside: bool
) -> None:
    def restart() -> None:
        assert one._reset("loader", first_iter=False) == "as ever"

    module = loader_module()
    module._BaseDataLoaderIter._reset = lambda *_, first_iter: "as ever"
    torch_data.patch(module, marker)  # type: ignore[arg-type]
    one = module._BaseDataLoaderIter(8, 7, 6)
    next(one)
    record.batches.backward()
    record.stepped(0)
    next(one)  # its loop was left
    if beside:
        thread = threading.Thread(target=restart)
        thread.start()
        thread.join()
    else:
        restart()
    next(one)
    record.batches.backward()
    record.stepped(1)
    assert marker.borders[1][1] == (7 if beside else 6), "another thread may go on with it"


def test_fetches_without_gradients_or_without_a_backward_are_no_input(
    marker: RecordingMarker, record: Recorder
) -> None:
    module = loader_module()
    torch_data.patch(module, marker)  # type: ignore[arg-type]
    module.torch.on = False
    next(module._BaseDataLoaderIter(5))
    module.torch.on = True
    validation = module._BaseDataLoaderIter(5, 5)
    assert [next(validation, None) is None for _ in range(3)] == [False, False, True]
    record.batches.backward()
    record.stepped(0)
    assert (marker.borders, marker.phases) == ([(0, None, 0)], [])


@pytest.fixture
def loader(marker: RecordingMarker, record: Recorder) -> Any:
    """In a training that has begun."""
    module = loader_module()
    torch_data.patch(module, marker)  # type: ignore[arg-type]
    record.begun(time.monotonic_ns())
    record.stepped(time.monotonic_ns())
    return module._BaseDataLoaderIter


def trains(record: Recorder, *batches: Any) -> int | None:
    """A step on these batches; how many examples it had."""
    for one in batches:
        next(one)
    record.batches.backward()
    record.event(BACKWARDS)
    record.at(time.monotonic_ns())
    examples = record.batches.take()
    record.stepped(time.monotonic_ns())
    return examples


def test_batches_of_an_evaluation_that_stopped_early_are_never_trained_on(
    loader: Any, record: Recorder
) -> None:
    training, validation = loader(8, 8, 8), loader(*[5] * 9)
    for _ in range(3):
        assert trains(record, training) == 8
        torch_module._mode_changed(record, False)
        for _ in range(2):
            next(validation)
        torch_module._mode_changed(record, True)


def test_training_that_fetches_while_its_model_is_in_eval_mode_loses_one_batch(
    loader: Any, record: Recorder
) -> None:
    examples = []
    training = loader(8, 8, 8)
    for _ in range(3):
        torch_module._mode_changed(record, False)
        next(training)
        torch_module._mode_changed(record, True)
        examples.append(trains(record))
    assert examples == [None, 8, 8]


def test_fetch_of_another_thread_is_no_phase(marker: RecordingMarker, record: Recorder) -> None:
    module = loader_module()
    torch_data.patch(module, marker)  # type: ignore[arg-type]
    one = module._BaseDataLoaderIter(8)
    thread = threading.Thread(target=lambda: next(one))
    thread.start()
    thread.join()
    record.batches.backward()
    record.stepped(0)
    assert (marker.borders, marker.phases) == ([(0, 8, 0)], [])


@pytest.mark.parametrize("sizes", [(8,), ()], ids=["a batch", "the end"])
def test_fetch_during_which_all_was_abandoned_yields_as_ever(
    marker: RecordingMarker, record: Recorder, sizes: tuple[int, ...]
) -> None:
    module = loader_module()
    fetch = module._BaseDataLoaderIter.__next__

    def __next__(self: Any) -> Any:
        record.abandon()  # as another thread does, or a fork
        return fetch(self)

    module._BaseDataLoaderIter.__next__ = __next__
    torch_data.patch(module, marker)  # type: ignore[arg-type]
    one = module._BaseDataLoaderIter(*sizes)
    assert list(map(tensor, sizes)) == [next(one) for _ in sizes]
    with pytest.raises(StopIteration):
        next(one)


@pytest.fixture(params=["alone", "in a list"])
def ragged(request: pytest.FixtureRequest) -> Any:
    return Ragged() if request.param == "alone" else [Ragged(), tensor(8)]


def yielding(batch: Any, marker: RecordingMarker) -> Any:
    """An iterator that yields it."""
    module = loader_module()
    module._BaseDataLoaderIter.__next__ = lambda _: batch
    torch_data.patch(module, marker)  # type: ignore[arg-type]
    return module._BaseDataLoaderIter()


def test_batch_whose_shape_raises_is_a_batch_without_examples(
    marker: RecordingMarker, record: Recorder, ragged: Any
) -> None:
    assert next(yielding(ragged, marker)) is ragged
    assert [*record.steps.events] == [INPUTS, FETCHED]
    record.batches.backward()
    record.stepped(0)
    assert marker.borders == [(0, None, 0)] and "hook.torch_data" not in marker.facts


def test_batch_whose_shape_raises_is_noted_in_a_calm_step(
    marker: RecordingMarker, record: Recorder, ragged: Any
) -> None:
    one, log = yielding(ragged, marker), []  # type: ignore[var-annotated]
    record.calm, record.iterator = log.append, id(one)
    assert next(one) is ragged
    assert [(what, sizes) for what, _, _, _, sizes in log] == [(FETCHED, (None, None))]


def test_input_is_over_though_its_batch_could_not_be_counted(
    marker: RecordingMarker, record: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(record.batches), "fetched", lambda *_: 1 / 0)
    batch = tensor(8)
    assert next(yielding(batch, marker)) is batch
    assert [*record.steps.events] == [INPUTS, FETCHED]
    assert marker.facts["hook.torch_data"] == "failed"


def test_fetch_yields_as_ever_when_the_recorder_fails(
    marker: RecordingMarker, record: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = loader_module()
    torch_data.patch(module, marker)  # type: ignore[arg-type]
    for name in ("enter", "leave", "forget"):
        monkeypatch.setattr(type(record), name, lambda *_: 1 / 0)
    one = module._BaseDataLoaderIter(8)
    assert next(one) == tensor(8)
    with pytest.raises(StopIteration):
        next(one)
