"""TensorFlow parameter servers: the chief's coordinator runs each worker's step as a closure.

`Worker._process_closure` runs in one thread per worker, from the send of a closure to its result; the worker
executes all of it in between (TensorFlow 2.12 to 2.21). With the result there it calls `mark_finished`, and
only then: a closure put back after a failure is no step. That call also lets `join` return and so the chief
end, hence the mark goes out before it.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Optional

from . import Marker, batch_size

EVALUATION = ("test_function",)  # Keras schedules its evaluation the same way


def patch(module: Any, marker: Marker) -> None:
    """module: tensorflow.python.distribute.coordinator.cluster_coordinator."""
    queue, worker = module._CoordinatedClosureQueue, module.Worker
    finish, process = queue.mark_finished, worker._process_closure
    running = threading.local()
    steps: dict[int, int] = {}

    def mark_finished(self: Any) -> Any:
        begun = getattr(running, "begun", None)
        if begun is not None:
            running.begun = None
            _mark(marker, steps, *begun)
        return finish(self)

    def _process_closure(self: Any, closure: Any) -> Any:
        running.begun = (self, closure, time.monotonic_ns())
        try:
            return process(self, closure)
        finally:
            running.begun = None

    queue.mark_finished = mark_finished
    worker._process_closure = _process_closure


def _mark(marker: Marker, steps: dict[int, int], worker: Any, closure: Any, begin_ns: int) -> None:
    end_ns = time.monotonic_ns()
    try:
        if _name(closure) in EVALUATION:
            return
        index = int(worker.worker_index)
        number = steps[index] = steps.get(index, -1) + 1
        marker.window(number, begin_ns, end_ns, _examples(closure, index), ("worker", index), True)
    except Exception:
        return


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
