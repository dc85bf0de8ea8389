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
from .torch_batches import BatchSizes
from .torch_between import EVALUATION
from .torch_calm import work_out
from .torch_phases import FETCHED, INPUT, INPUTS
from .torch_recorder import Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.utils.data.dataloader."""
    owner, record = module._BaseDataLoaderIter, recorder(marker)
    fetch, batches, account = owner.__next__, record.batches, record.account
    clock, thread, sizes_of = time.monotonic_ns, threading.get_ident, BatchSizes().of
    calmly = _fetch_of_calm_steps(record, fetch, sizes_of)

    @functools.wraps(fetch)
    def __next__(self: Any) -> Any:
        begin = clock()
        if not module.torch.is_grad_enabled():
            return _evaluating(record, fetch, self, begin)
        here = thread() == record.thread
        if here and record.calm is not None and (queue := batches.queues.get(id(self))) is not None:
            return calmly(self, begin, queue)
        if here:
            begin = account.begins("input", begin) if account.on else begin
            record.note(INPUTS, begin)
        if record.sampled:
            record.spent += clock() - begin
        try:
            batch = fetch(self)
        except BaseException as error:
            _fetch_failed(record, self, here, isinstance(error, StopIteration))
            raise
        end = clock()
        try:
            size, shapes = sizes_of(batch)
            batches.fetched(self, size, begin, shapes)
            if here:
                end = account.ends(end) if account.on else end
                record.note(FETCHED, end)
            if not record.started or record.between.since is not None:
                _seldom_fetched(record, self, here, begin)
            if record.sampled:
                record.spent += clock() - end
        except Exception:
            record.failed("torch_data")
        return batch

    owner.__next__ = __next__


def _evaluating(record: Recorder, fetch: Any, iterator: Any, begin: int) -> Any:
    try:
        return fetch(iterator)
    finally:
        record.apart(EVALUATION, begin, time.monotonic_ns())


def _fetch_of_calm_steps(record: Recorder, fetch: Any, sizes_of: Any) -> Any:
    """fetched(iterator, when it began, its queue of torch_batches) in place of `fetch`."""
    clock = time.monotonic_ns

    def fetched(iterator: Any, begin: int, queue: Any) -> Any:
        if record.sampled:
            record.spent += clock() - begin
        try:
            batch = fetch(iterator)
        except BaseException as error:
            record.enter(INPUT, begin)
            _fetch_failed(record, iterator, True, isinstance(error, StopIteration))
            raise
        end = clock()
        try:
            found = FETCHED, begin, end, queue, sizes_of(batch)
            if record.calm is not None:
                record.calm(found)
            else:  # something in it was unusual
                work_out(record, [found])
            if record.sampled:
                record.spent += clock() - end
        except Exception:
            record.failed("torch_data")
        return batch

    return fetched


def _seldom_fetched(record: Recorder, iterator: Any, here: bool, begin: int) -> None:
    """A fetch before the first step, or while the model is in eval mode."""
    if not record.started:
        record.seen("fetch", begin)
    elif here and record.batches.training(iterator):
        record.evaluated(begin)


def _fetch_failed(record: Recorder, iterator: Any, here: bool, at_its_end: bool) -> None:
    try:
        if record.calm is not None:
            record.disturb()
        if here:
            if record.account.on:
                record.account.ends(time.monotonic_ns())
            record.leave(time.monotonic_ns())
        since = record.batches.ended(iterator) if at_its_end else None
        if since is not None:
            record.forget(INPUT, since)
            record.apart(EVALUATION, since, time.monotonic_ns())
        elif at_its_end and here and record.batches.waiting():
            record.forward(time.monotonic_ns())
    except Exception:
        record.failed("torch_data")
