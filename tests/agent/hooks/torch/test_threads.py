"""Which thread is the one that trains, where several do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle
from typing import Any

import pytest
from roofline_agent.hooks.torch import autograd as torch_autograd
from roofline_agent.hooks.torch import data as torch_data
from roofline_agent.hooks.torch import optimizer as torch_optimizer
from roofline_agent.hooks.torch.optimizer import LEFT_OUT
from roofline_agent.hooks.torch.phases import BACKWARD, OPTIMIZER
from roofline_agent.hooks.torch.recorder import Recorder
from roofline_agent.hooks.torch.threads import SURE

from ..doubles import Engine, RecordingMarker, loader_module, optimizer_module


class Training:
    """A model, an optimizer and batches of one size."""

    def __init__(self, modules: tuple[Any, Any, Any], size: int) -> None:
        loaders, optimizers, self.autograd = modules
        self.batches = loaders._BaseDataLoaderIter(*[size] * 100)
        self.optimizer = optimizers.Optimizer()

    def step(self) -> None:
        next(self.batches)
        self.backward()
        self.optimizer.step()

    def backward(self) -> None:
        self.autograd.backward(None)

    def train_on(self, batch: int) -> None:
        self.backward()
        self.optimizer.step()


@pytest.fixture
def modules(marker: RecordingMarker) -> Any:
    """Hooked parts of torch."""
    found = loader_module(), optimizer_module(), Engine().module
    for hooks, module in zip((torch_data, torch_optimizer, torch_autograd), found, strict=True):
        hooks.patch(module, marker)  # type: ignore[attr-defined]
    return found


def in_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


@pytest.fixture
def threads() -> Iterator[list[ThreadPoolExecutor]]:
    """Three threads that stay, as those of asyncio.to_thread."""
    with ExitStack() as stack:
        yield [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(3)]


def seen(marker: RecordingMarker, record: Recorder) -> list[int | None]:
    """Examples of the steps."""
    record.borders.commit()
    assert not {"hook.torch_optimizer", "hook.torch_recorder", "hook.torch_data"} & marker.facts.keys()
    assert [number for number, *_ in marker.borders] == list(range(-1, len(marker.borders) - 1))
    return [size for _, size, _ in marker.borders[1:]]


def test_training_next_to_the_first_is_in_none_of_its_steps(
    modules: Any, marker: RecordingMarker, record: Recorder
) -> None:
    first = Training(modules, 8)
    first.step()
    second = Training(modules, 5)
    for _ in range(20):
        in_thread(second.step)
        first.step()
    assert seen(marker, record) == [8] * 21
    assert all([name for name, *_ in step].count(BACKWARD) == 1 for step in marker.steps)
    updates_of(marker).finish()
    assert marker.facts[LEFT_OUT] == 20


def updates_of(marker: RecordingMarker) -> torch_optimizer.Updates:
    updates = torch_optimizer.recorder(marker).updates  # type: ignore[arg-type]
    assert isinstance(updates, torch_optimizer.Updates)
    return updates


def test_updates_of_a_second_optimizer_that_move_from_thread_to_thread_are_counted_as_left_out(
    modules: Any, marker: RecordingMarker, record: Recorder, threads: list[ThreadPoolExecutor]
) -> None:
    first, second = Training(modules, 8), Training(modules, 5)
    for _ in range(6):
        first.step()
    for thread, _ in zip(cycle(threads), range(2 * SURE + 3), strict=False):
        thread.submit(second.step).result()
    assert marker.facts[LEFT_OUT] == 2 * SURE, "known though the process may be killed"
    updates_of(marker).finish()
    assert marker.facts[LEFT_OUT] == 2 * SURE + 3
    assert seen(marker, record) == [8] * 6


def test_thread_that_trains_alone_is_the_one(modules: Any, marker: RecordingMarker, record: Recorder) -> None:
    first = Training(modules, 8)
    for _ in range(3):
        first.step()
    second = Training(modules, 5)

    def train() -> None:
        for _ in range(SURE + 6):
            second.step()

    in_thread(train)
    assert seen(marker, record) == [8] * 3 + [5] * (SURE + 6)
    updates_of(marker).finish()
    assert LEFT_OUT not in marker.facts
    backwards = [[name for name, *_ in step].count(BACKWARD) for step in marker.steps]
    assert backwards[-6:] == [1] * 6


def test_thread_takes_over_at_once_from_one_that_has_ended(
    modules: Any, marker: RecordingMarker, record: Recorder
) -> None:
    first, second, over = Training(modules, 8), None, threading.Event()

    def train() -> None:
        over.wait(10)
        assert second is not None
        for _ in range(2):
            second.step()

    later = threading.Thread(target=train)
    later.start()  # before the other ends, whose identity it would get
    in_thread(lambda: [first.step() for _ in range(3)])
    second = Training(modules, 5)
    over.set()
    later.join()
    assert seen(marker, record) == [8] * 3 + [5] * 2
    assert [name for name, *_ in marker.phases].count(BACKWARD) == 1


def backwards_and_updates(marker: RecordingMarker) -> list[tuple[int, int]]:
    names = [[name for name, *_ in step] for step in marker.steps]
    return [(step.count(BACKWARD), step.count(OPTIMIZER)) for step in names]


def test_training_that_moves_from_thread_to_thread_keeps_its_steps(
    modules: Any, marker: RecordingMarker, record: Recorder, threads: list[ThreadPoolExecutor]
) -> None:
    training = Training(modules, 8)
    for thread, _ in zip(cycle(threads), range(20), strict=False):
        thread.submit(training.train_on, next(training.batches)).result()
    assert seen(marker, record) == [8] * 20
    assert backwards_and_updates(marker)[1:] == [(1, 1)] * 19


def test_training_that_fetches_in_the_thread_it_has_moved_to_keeps_its_batches(
    modules: Any, marker: RecordingMarker, record: Recorder, threads: list[ThreadPoolExecutor]
) -> None:
    training = Training(modules, 8)
    for thread, _ in zip(cycle([*threads[:1], *threads]), range(20), strict=False):
        thread.submit(training.step).result()
    assert seen(marker, record) == [8] * 20
    assert backwards_and_updates(marker)[1:] == [(1, 1)] * 19


def test_backwards_of_one_step_may_be_in_several_threads(
    modules: Any, marker: RecordingMarker, record: Recorder, threads: list[ThreadPoolExecutor]
) -> None:
    training = Training(modules, 8)
    thread = cycle(threads)
    for _ in range(10):
        for work in (training.backward, training.backward, lambda: training.train_on(0)):
            next(training.batches)
            next(thread).submit(work).result()
    assert seen(marker, record) == [24] * 10
    assert backwards_and_updates(marker)[1:] == [(3, 1)] * 9


def test_step_that_calls_that_of_its_base_is_one_update_in_another_thread_too(
    modules: Any, marker: RecordingMarker, record: Recorder, threads: list[ThreadPoolExecutor]
) -> None:
    training = Training(modules, 8)
    plain = training.optimizer.step

    def twice() -> None:
        hooks = torch_optimizer.recorder(marker).updates
        hooks.begin(training.optimizer)
        plain()
        hooks.end(training.optimizer)

    training.optimizer.step = twice
    for thread, _ in zip(cycle(threads), range(10), strict=False):
        thread.submit(training.train_on, next(training.batches)).result()
    assert seen(marker, record) == [8] * 10
