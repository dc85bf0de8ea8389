"""TensorFlow parameter servers: the chief's coordinator runs each worker's step as a closure.

`Worker._process_closure` runs in one thread per worker, from the send of a closure to its result; the worker
executes all of it in between (TensorFlow 2.12 to 2.21). With the result there it calls `mark_finished`, and
only then: a closure put back after a failure is no step. That call also lets `join` return and so the chief
end, hence the mark is sent before it. `rounds.py` numbers the steps from the events of the queue.
"""

from __future__ import annotations

import atexit
import threading
import time
from typing import Any, List, Optional, Set

from .. import Marker
from . import payload
from .between import at_coordinator
from .function import gradients, trains
from .iterators import batch_size
from .rounds import Closure, Rounds, Step
from .steps import steps

EVALUATION = ("test_function",)  # Keras schedules its evaluation the same way
NOTHING_HERE = "it hands steps to workers and computes none; trace the workers"


def patch(module: Any, marker: Marker) -> None:
    """module: tensorflow.python.distribute.coordinator.cluster_coordinator."""
    chief = _Chief(marker)
    _patch_queue(module._CoordinatedClosureQueue, chief)
    _patch_worker(module.Worker, chief)
    at_coordinator.append(chief.broken)
    atexit.register(chief.ends)


def _patch_queue(queue: Any, chief: _Chief) -> None:
    put, finish, wait, done = queue.put, queue.mark_finished, queue.wait, queue.done

    def put_(self: Any, closure: Any, tag: Any = None) -> Any:
        if tag is None:  # for any worker; what has a tag prepares one worker
            chief.put(closure)
        return put(self, closure, tag)

    def mark_finished(self: Any) -> Any:
        chief.finished()
        return finish(self)

    def wait_(self: Any, *args: Any, **kwargs: Any) -> Any:
        waited: Any = True
        try:
            waited = wait(self, *args, **kwargs)
            return waited
        finally:
            if waited:
                chief.waited()

    def done_(self: Any) -> Any:
        found = done(self)
        if found:
            chief.waited()
        return found

    queue.put, queue.mark_finished, queue.wait, queue.done = put_, mark_finished, wait_, done_


def _patch_worker(worker: Any, chief: _Chief) -> None:
    create, process = worker.__init__, worker._process_closure

    def __init__(self: Any, worker_index: Any, *args: Any, **kwargs: Any) -> None:
        steps.coordinated = True
        chief.workers.add(worker_index)  # before it asks the queue for its first closure
        create(self, worker_index, *args, **kwargs)

    def _process_closure(self: Any, closure: Any) -> Any:
        chief.begins(self, closure)
        try:
            return process(self, closure)
        finally:
            chief.running.begun = None

    worker.__init__, worker._process_closure = __init__, _process_closure


class _Chief:
    """Follows what the patched queue and workers do; nothing here raises."""

    def __init__(self, marker: Marker) -> None:
        self.running = threading.local()
        self._marker = marker
        self._lock = threading.Lock()
        self._rounds = Rounds()
        self.workers: Set[Any] = set()

    def put(self, closure: Any) -> None:
        try:
            if _is_step(closure):
                self._send("put")
            else:
                self._rounds.broken()
        except Exception:
            self._marker.failed("tf_coordinator")

    def begins(self, worker: Any, closure: Any) -> None:
        self.running.begun = (worker, closure, time.monotonic_ns())

    def finished(self) -> None:
        """The closure that this thread runs has its result."""
        begun, self.running.begun = getattr(self.running, "begun", None), None
        if begun is None:
            return
        end_ns = time.monotonic_ns()
        try:
            worker, closure, begin_ns = begun
            if _is_step(closure):
                index = int(worker.worker_index)
                self._send("finished", Closure(index, begin_ns, end_ns, _examples(closure, index)))
                payload.report(self._marker)
        except Exception:
            self._marker.failed("tf_coordinator")

    def waited(self) -> None:
        """All closures are done, and the training has waited for that."""
        try:
            self._send("waited", time.monotonic_ns())
        except Exception:
            self._marker.failed("tf_coordinator")

    def broken(self) -> None:
        """An evaluation or a checkpoint is over, which was part of no round."""
        self._rounds.broken()

    def ends(self) -> None:
        """The process ends."""
        try:
            with self._lock:
                self._mark(self._rounds.ends())
        except Exception:
            self._marker.failed("tf_coordinator")

    def _send(self, event: str, *what: Any) -> None:
        self._marker.tracing.refuse(NOTHING_HERE)
        # Marks of a worker go out in the order of its closures: under the lock.
        with self._lock:
            self._mark(getattr(self._rounds, event)(*what, len(self.workers) or 1))

    def _mark(self, found: List[Step]) -> None:
        for number, asynchronous, ran in found:
            self._marker.window(
                number, ran.begin_ns, ran.end_ns, ran.examples, ("worker", ran.worker), asynchronous
            )


def _is_step(closure: Any) -> bool:
    concrete = getattr(closure, "_concrete_function", None)
    if _name(closure) in EVALUATION:
        return False
    # Without a gradient seen anywhere, whatever is scheduled may be what trains.
    return not gradients.taken or concrete is None or trains(concrete)


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
