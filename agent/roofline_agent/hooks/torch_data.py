"""PyTorch: the training thread waits for input inside a DataLoader iterator's `__next__`.

A fetch with gradients disabled is validation and counts nowhere; nor do those of an iterator that was read to
its end without a backward.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

from . import Marker
from .torch_batches import examples_in
from .torch_phases import FETCHED, INPUT, INPUTS
from .torch_recorder import MOST_EVENTS, Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.utils.data.dataloader."""
    owner, record = module._BaseDataLoaderIter, recorder(marker)
    fetch, batches, event, at, times = owner.__next__, record.batches, record.event, record.at, record.times
    clock, thread = time.monotonic_ns, threading.get_ident

    @functools.wraps(fetch)
    def __next__(self: Any) -> Any:
        if not module.torch.is_grad_enabled():
            return fetch(self)
        begin = clock()
        here = thread() == record.thread
        if here:
            event(INPUTS)
            at(begin)
        try:
            batch = fetch(self)
        except BaseException as error:
            _fetch_failed(record, self, here, isinstance(error, StopIteration))
            raise
        end = clock()
        try:
            batches.fetched(self, examples_in(batch), begin)
            if here:
                event(FETCHED)
                at(end)
                if len(times) > MOST_EVENTS:
                    record.settle()
            if not record.started:
                record.seen("fetch", begin)
        except Exception:
            pass
        return batch

    owner.__next__ = __next__


def _fetch_failed(record: Recorder, iterator: Any, here: bool, at_its_end: bool) -> None:
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
