"""Accelerate's dispatcher: one rank reads for all, each trains on its slice."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from roofline_agent.hooks.torch import data as torch_data
from roofline_agent.hooks.torch import dispatcher as torch_dispatcher
from roofline_agent.hooks.torch.phases import INPUT
from roofline_agent.hooks.torch.recorder import Recorder

from ..doubles import RecordingMarker, loader_module, tensor


def test_examples_are_those_of_the_slice(marker: RecordingMarker, record: Recorder) -> None:
    class DataLoaderDispatcher:
        """Of two ranks: it reads one batch ahead, as accelerate does."""

        def __iter__(self) -> Iterator[Any]:
            inner = loader._BaseDataLoaderIter(8, 8, 6)
            ahead = next(inner)
            while inner.sizes:
                batch, ahead = ahead, next(inner)
                yield tensor(batch.shape[0] // 2)
            yield tensor(ahead.shape[0] // 2)

    loader: Any = loader_module()
    torch_data.patch(loader, marker)  # type: ignore[arg-type]
    module: Any = SimpleNamespace(DataLoaderDispatcher=DataLoaderDispatcher, torch=loader.torch)
    torch_dispatcher.patch(module, marker)  # type: ignore[arg-type]
    for number, batch in enumerate(DataLoaderDispatcher()):
        record.batches.backward()
        record.stepped(number)
        assert marker.borders[-1][1] == batch.shape[0]
        assert [name for name, *_ in marker.steps[-1]].count(INPUT) == 1
    assert [examples for _, examples, _ in marker.borders] == [4, 4, 3]
    other = loader._BaseDataLoaderIter(5)
    next(other)
    record.batches.backward()
    record.stepped(9)
    assert marker.borders[-1][1] == 5
