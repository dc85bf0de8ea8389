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
        begin = clock()
        here = _begins(record, begin)
        try:
            batch = fetch(self)
        except BaseException as error:
            _ended(record, self, here, isinstance(error, StopIteration))
            raise
        _fetched(record, self, batch, begin, here)
        return batch

    owner.__next__ = __next__


def _begins(record: Recorder, now: int) -> bool:
    try:
        if record.here():
            record.enter(INPUT, now)
            return True
    except Exception:
        return False
    return False


def _fetched(record: Recorder, iterator: Any, batch: Any, begin: int, here: bool) -> None:
    try:
        if here:
            record.leave(time.monotonic_ns())
        record.batches.fetched(iterator, examples_in(batch), begin)
        record.seen("fetch", begin)
        if here:
            record.forward(time.monotonic_ns())
    except Exception:
        return


def _ended(record: Recorder, iterator: Any, here: bool, at_its_end: bool) -> None:
    try:
        if here:
            record.leave(time.monotonic_ns())
        since = record.batches.ended(iterator) if at_its_end else None
        if since is not None:
            record.forget(INPUT, since)
        elif at_its_end and here and record.batches.waiting():
            record.forward(time.monotonic_ns())
    except Exception:
        return
