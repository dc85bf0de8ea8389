"""PyTorch: the training thread waits for input inside a DataLoader iterator's `__next__`.

A fetch with gradients disabled is validation and counts nowhere; nor do those of an iterator that was read to
its end without a backward.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from . import Marker
from .torch_batches import examples_in
from .torch_recorder import INPUT, Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.utils.data.dataloader."""
    owner, record = module._BaseDataLoaderIter, recorder(marker)
    fetch, clock = owner.__next__, time.monotonic_ns

    @functools.wraps(fetch)
    def __next__(self: Any) -> Any:
        if not module.torch.is_grad_enabled():
            return fetch(self)
        begin, here = clock(), record.here()
        if here:
            record.enter(INPUT, begin)
        try:
            batch = fetch(self)
        except BaseException as error:
            if here:
                record.leave(clock())
            if isinstance(error, StopIteration):
                _ended(record, self, here)
            raise
        if here:
            record.leave(clock())
        _fetched(record, self, batch, begin, here)
        return batch

    owner.__next__ = __next__


def _fetched(record: Recorder, iterator: Any, batch: Any, begin: int, here: bool) -> None:
    try:
        record.batches.fetched(iterator, examples_in(batch), begin)
        record.seen("fetch", begin)
        if here:
            record.forward(time.monotonic_ns())
    except Exception:
        return


def _ended(record: Recorder, iterator: Any, here: bool) -> None:
    since = record.batches.ended(iterator)
    if since is not None:
        record.forget(INPUT, since)
    elif here and record.batches.waiting():
        record.forward(time.monotonic_ns())
