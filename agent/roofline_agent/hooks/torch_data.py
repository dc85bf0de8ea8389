"""PyTorch: the training thread waits for input inside a DataLoader iterator's `__next__`.

A fetch with gradients disabled is evaluation, and so are those of an iterator that was read to its end
without a backward.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

from . import Marker
from .torch_batches import examples_in, shapes_in
from .torch_between import EVALUATION
from .torch_phases import FETCHED, INPUT, INPUTS
from .torch_recorder import MOST_EVENTS, Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.utils.data.dataloader."""
    owner, record = module._BaseDataLoaderIter, recorder(marker)
    fetch, batches, event, at, times = owner.__next__, record.batches, record.event, record.at, record.times
    clock, thread = time.monotonic_ns, threading.get_ident

    @functools.wraps(fetch)
    def __next__(self: Any) -> Any:
        begin = clock()
        if not module.torch.is_grad_enabled():
            try:
                return fetch(self)
            finally:
                record.apart(EVALUATION, begin, clock())
        here = thread() == record.thread
        if here:
            event(INPUTS)
            at(begin)
        if record.sampled:
            record.spent += clock() - begin
        try:
            batch = fetch(self)
        except BaseException as error:
            _fetch_failed(record, self, here, isinstance(error, StopIteration))
            raise
        end = clock()
        try:
            batches.fetched(self, examples_in(batch), begin, shapes_in(batch))
            if here:
                event(FETCHED)
                at(end)
                if len(times) > MOST_EVENTS:
                    record.settle()
            if not record.started:
                record.seen("fetch", begin)
            elif record.between.since is not None and here and batches.training(self):
                record.evaluated(begin)
            if record.sampled:
                record.spent += clock() - end
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
            record.apart(EVALUATION, since, time.monotonic_ns())
        elif at_its_end and here and record.batches.waiting():
            record.forward(time.monotonic_ns())
    except Exception:
        return
