"""Input of a TensorFlow loop that takes batches in Python: `for batch in dataset`, plain or distributed.

Each batch taken in the main thread is `phase.input` of the step it comes before. The end of a dataset ends an
epoch or an evaluation. An iterator that a tf.function takes batches from is not seen here: its waiting is
part of the call.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from . import Marker
from .tf_function import examples_of, thread
from .tf_steps import steps

_now, _thread = time.monotonic_ns, threading.get_ident


class _Fetching:
    now = False  # inside a distributed iterator, which takes from plain ones


def patch(module: Any, marker: Marker) -> None:
    """module: tensorflow.python.data.ops.iterator_ops or tensorflow.python.distribute.input_lib."""
    if hasattr(module, "OwnedIterator"):
        _patch(module.OwnedIterator, "_next_internal", module)
    else:
        _patch(module.DistributedIteratorBase, "get_next", module)


def _patch(iterator: Any, name: str, module: Any) -> None:
    take, main = getattr(iterator, name), threading.main_thread().ident
    executing_eagerly = module.context.executing_eagerly
    exhausted = getattr(getattr(module, "errors", None), "OutOfRangeError", StopIteration)

    def taken(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _Fetching.now or _thread() != main:
            return take(self, *args, **kwargs)
        if (thread.inside or steps.quiet) and not executing_eagerly():  # traced, not taken
            return take(self, *args, **kwargs)
        _Fetching.now, begin = True, _now()
        try:
            batch = take(self, *args, **kwargs)
        except exhausted:
            steps.broken()
            raise
        finally:
            _Fetching.now = False
        end = _now()
        try:
            steps.took(self, examples_of(batch if type(batch) is tuple else (batch,)), begin, end)
        except Exception:
            pass
        return batch

    taken.__name__, taken.__doc__ = take.__name__, take.__doc__
    setattr(iterator, name, taken)
