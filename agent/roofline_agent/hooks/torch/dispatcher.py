"""Accelerate: where one rank reads the batches of all and hands out slices of them, as of an IterableDataset,
each rank's input is its slice, and what the one has read is no batch of its own."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

from .. import Marker
from .data import fetch_in_full
from .recorder import Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: accelerate.data_loader."""
    owner, record = module.DataLoaderDispatcher, recorder(marker)
    iterate = owner.__iter__
    fetch = fetch_in_full(record, _slice_from(record), module.torch.is_grad_enabled)

    @functools.wraps(iterate)
    def __iter__(self: Any) -> Any:
        return _Slices(iterate(self), fetch)

    owner.__iter__ = __iter__


def _slice_from(record: Recorder) -> Any:
    batches = record.batches

    def fetch(slices: Any) -> Any:
        batches.dispatched_in = threading.get_ident()
        try:
            return next(slices.dispatched)
        finally:
            batches.dispatched_in = 0

    return fetch


class _Slices:
    """In place of the dispatcher's generator."""

    __slots__ = ("__weakref__", "_fetch", "dispatched")

    def __init__(self, dispatched: Any, fetch: Any) -> None:
        self.dispatched, self._fetch = dispatched, fetch

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._fetch(self, time.monotonic_ns())

    def close(self) -> None:
        self.dispatched.close()
