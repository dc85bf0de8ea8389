"""Input of a TensorFlow loop that takes batches in Python: `for batch in dataset`, plain or distributed.

Each batch taken in the main thread is `phase.input` of the step it comes before. The end of a dataset ends an
epoch or an evaluation. If a tf.function takes batches from an iterator, only their number is seen, when the
function is traced: the waiting is part of the call.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from .. import Marker
from .function import thread
from .graph_contents import contents_of, outermost
from .iterators import yielded_by
from .steps import steps
from .training_function import UNKNOWN, describe

_now, _thread = time.monotonic_ns, threading.get_ident


class _Fetching:
    now = False  # inside a distributed iterator, which takes from plain ones


def patch(module: Any, marker: Marker) -> None:
    """module: tensorflow.python.data.ops.iterator_ops or tensorflow.python.distribute.input_lib."""
    if hasattr(module, "OwnedIterator"):
        _patch(module.OwnedIterator, "_next_internal", module, marker)
    else:
        _patch(module.DistributedIteratorBase, "get_next", module, marker)


def _patch(iterator: Any, name: str, module: Any, marker: Marker) -> None:
    take, main = getattr(iterator, name), threading.main_thread().ident
    executing_eagerly = module.context.executing_eagerly
    default_graph = module.ops.get_default_graph if hasattr(module, "ops") else None
    exhausted = getattr(getattr(module, "errors", None), "OutOfRangeError", StopIteration)

    def taken(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _Fetching.now or _thread() != main:
            return take(self, *args, **kwargs)
        if not executing_eagerly() and (thread.inside or steps.quiet):  # traced, not taken
            return _take_in_graph(self, take, default_graph, marker, args, kwargs)
        _Fetching.now, begin = True, _now()
        try:
            batch = take(self, *args, **kwargs)
        except exhausted:
            steps.exhausted(self, _now())
            raise
        finally:
            _Fetching.now = False
        end = _now()
        try:
            size, key = describe(batch if type(batch) is tuple else (batch,))
            steps.took(self, size, begin, end, None if UNKNOWN in key else key)
            if steps.cost.measuring:
                steps.cost.spent(end)
        except Exception:
            marker.failed("tf_input")
        return batch

    taken.__name__, taken.__doc__ = take.__name__, take.__doc__
    setattr(iterator, name, taken)


def _take_in_graph(
    iterator: Any, take: Any, default_graph: Any, marker: Marker, args: Any, kwargs: Any
) -> Any:
    """Take a batch in a graph: what every call of its function will take."""
    _Fetching.now = True
    try:
        batch = take(iterator, *args, **kwargs)
    finally:
        _Fetching.now = False
    try:
        graph, repeated = outermost(default_graph())
        contents_of(graph).fetch(yielded_by(iterator), repeated)
    except Exception:
        marker.failed("tf_input")
    return batch
