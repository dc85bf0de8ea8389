"""TensorFlow parameter servers: the chief's coordinator runs each worker's step as a closure.

`Worker._process_closure` runs in one thread per worker, from the send of a closure to its result; the worker
executes all of it in between (TensorFlow 2.12 to 2.21). It never raises, so whether the closure succeeded is
seen by `mark_finished` having been called in that thread. A closure put back after a failure is no step.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Optional

from . import Marker, batch_size

EVALUATION = ("test_function",)  # Keras schedules its evaluation the same way


def patch(module: Any, marker: Marker) -> None:
    """module: tensorflow.python.distribute.coordinator.cluster_coordinator."""
    state = threading.local()
    queue, worker = module._CoordinatedClosureQueue, module.Worker
    finish, process = queue.mark_finished, worker._process_closure
    steps: dict[int, int] = {}

    def mark_finished(self: Any) -> Any:
        state.finished = True
        return finish(self)

    def _process_closure(self: Any, closure: Any) -> Any:
        state.finished = False
        begin = time.monotonic_ns()
        result = process(self, closure)
        end = time.monotonic_ns()
        try:
            if state.finished and _name(closure) not in EVALUATION:
                index = int(self.worker_index)
                number = steps[index] = steps.get(index, -1) + 1
                marker.window(number, begin, end, _examples(closure, index), ("worker", index), True)
        except Exception:
            return result
        return result

    queue.mark_finished = mark_finished
    worker._process_closure = _process_closure


def _name(closure: Any) -> str:
    graph = getattr(getattr(closure, "_concrete_function", None), "_func_graph", None)
    return str(getattr(graph, "name", ""))


def _examples(closure: Any, index: int) -> Optional[int]:
    arguments = list(closure._args) + list(closure._kwargs.values())
    # Keras with steps_per_execution passes their number along: it lies on a parameter server, not here.
    if _name(closure) == "train_function" and len(arguments) > 1:
        return None
    for argument in arguments:
        values = getattr(argument, "_values", None)
        if values is not None and len(values) > index:
            size = batch_size(values[index])
            if size is not None:
                return size
    return None
