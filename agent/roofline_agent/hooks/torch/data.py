"""PyTorch: the training thread waits for input inside a DataLoader iterator's `__next__`.

A fetch with gradients disabled is evaluation, and so are those of an iterator that was read to its end
without a backward.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Optional

from .. import Marker
from ..signals import raise_again
from .batch_sizes import shape_of
from .between_steps import EVALUATION
from .calm import work_out
from .phases import FETCHED, INPUT, INPUTS
from .recorder import Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.utils.data.dataloader."""
    owner, record = module._BaseDataLoaderIter, recorder(marker)
    fetch = owner.__next__
    clock, noted = time.monotonic_ns, record.sizes.noted
    # Looked up once: torch's dictionary is out of the caches when a step begins.
    has_gradients = module.torch.is_grad_enabled
    in_full = fetch_in_full(record, fetch, has_gradients)

    @functools.wraps(fetch)
    def __next__(self: Any) -> Any:
        begin = clock()
        if record.calm is None or id(self) != record.iterator or not has_gradients():
            return in_full(self, begin)
        if record.sampled:
            record.spent += clock() - begin
        try:
            batch = fetch(self)
        except BaseException as error:
            _fetch_failed(record, self, True, isinstance(error, StopIteration), begin)
            raise
        end = clock()
        try:
            # As `noted` does, with a call less. What they mean is worked out later, with warm caches.
            sizes = list(map(shape_of, batch)) if type(batch) is list else noted(batch)
        except AttributeError:  # something in it is no tensor
            sizes = noted(batch)
        except Exception:
            raise_again()
            sizes = noted(batch)
        log = record.calm
        if log is not None:
            log((FETCHED, begin, end, record.queue, sizes))
        else:  # something in it was unusual
            _note_fetch(record, begin, end, record.queue, sizes)
        if record.sampled:
            record.spent += clock() - end
        return batch

    owner.__next__ = __next__
    if hasattr(owner, "_reset"):
        _follow_restarts(owner, record)


def _follow_restarts(owner: Any, record: Recorder) -> None:
    """Persistent workers have one iterator for all epochs."""
    reset = owner._reset

    @functools.wraps(reset)
    def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if id(self) in record.batches.queues and record.in_training_thread():
                if record.calm is not None:
                    record.disturb()
                record.batches.restarted(self)
        except Exception:
            record.failed("torch_data")
        return reset(self, *args, **kwargs)

    owner._reset = _reset


def _note_fetch(record: Recorder, begin: int, end: int, queue: Any, sizes: Any) -> None:
    try:
        work_out(record, [(FETCHED, begin, end, queue, sizes)])
    except Exception:
        record.failed("torch_data")


def fetch_in_full(record: Recorder, fetch: Any, has_gradients: Any) -> Any:
    """Fetch a batch for which it is not known that it is one of a calm step."""
    batches, account, sizes_of, noted = record.batches, record.account, record.sizes.of, record.sizes.noted
    clock, thread = time.monotonic_ns, threading.get_ident

    def in_full(iterator: Any, begin: int) -> Any:
        if batches.dispatched_in and batches.dispatched_in == thread():
            return fetch(iterator)  # for other ranks, too
        if not has_gradients():
            return _evaluating(record, fetch, iterator, begin)
        here = thread() == record.thread
        queue = batches.queues.get(id(iterator)) if here and record.calm is not None else None
        if here and account.on:
            begin = account.begins("input", begin)
        if here and queue is None:
            record.note(INPUTS, begin)
        if record.sampled:
            record.spent += clock() - begin
        try:
            batch = fetch(iterator)
        except BaseException as error:
            began = None if queue is None else begin
            _fetch_failed(record, iterator, here, isinstance(error, StopIteration), began)
            raise
        end = clock()
        try:
            if queue is None:
                _fetched(record, iterator, here, begin, end, sizes_of(batch))
            else:
                end = account.ends(end) if account.on else end
                log = record.calm
                if log is not None:
                    record.iterator, record.queue = 0 if account.on else id(iterator), queue
                    log((FETCHED, begin, end, queue, noted(batch)))
                else:  # something in it was unusual
                    work_out(record, [(FETCHED, begin, end, queue, noted(batch))])
            if record.sampled:
                record.spent += clock() - end
        except Exception:
            record.failed("torch_data")
        return batch

    return in_full


def _evaluating(record: Recorder, fetch: Any, iterator: Any, begin: int) -> Any:
    try:
        return fetch(iterator)
    finally:
        record.note_between(EVALUATION, begin, time.monotonic_ns())


def _fetched(record: Recorder, iterator: Any, here: bool, begin: int, end: int, sizes: Any) -> None:
    size, shapes = sizes
    try:
        record.batches.fetched(iterator, size, begin, shapes, threading.get_ident())
    finally:
        if here:
            record.note(FETCHED, record.account.ends(end) if record.account.on else end)
    if not record.started or record.between.since is not None:
        _seldom_fetched(record, iterator, here, begin)


def _seldom_fetched(record: Recorder, iterator: Any, here: bool, begin: int) -> None:
    """A fetch before the first step, or while the model is in eval mode."""
    if not record.started:
        record.seen("fetch", begin)
    elif here and record.batches.training(iterator):
        record.evaluated(begin)


def _fetch_failed(
    record: Recorder, iterator: Any, here: bool, at_its_end: bool, began: Optional[int] = None
) -> None:
    """began: when the input began, if that was not noted."""
    try:
        if began is not None:
            record.enter(INPUT, began)
        if record.calm is not None:
            record.disturb()
        if here:
            if record.account.on:
                record.account.ends(time.monotonic_ns())
            record.leave(time.monotonic_ns())
        since = record.batches.ended(iterator) if at_its_end else None
        if since is not None:
            record.forget(INPUT, since)
            record.note_between(EVALUATION, since, time.monotonic_ns())
        elif at_its_end and here and record.batches.waiting():
            record.forward(time.monotonic_ns())
    except Exception:
        record.failed("torch_data")
