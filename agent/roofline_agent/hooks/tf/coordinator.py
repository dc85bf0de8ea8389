"""TensorFlow parameter servers: the chief's coordinator runs each worker's step as a closure.

`Worker._process_closure` runs in one thread per worker, from the send of a closure to its result; the worker
executes all of it in between (TensorFlow 2.12 to 2.21). With the result there it calls `mark_finished`, and
only then: a closure put back after a failure is no step. That call also lets `join` return and so the chief
end, hence the end of the closure is noted before it. `rounds.py` numbers the steps from the events of the
queue.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from typing import Any, Deque, Dict, Iterable, NamedTuple, Optional, Set, Tuple

from .. import Marker
from ..marker import DEFERRED_NS, SHORT_NS
from . import payload
from .between import at_coordinator
from .function import trains
from .graph_contents import traced
from .iterators import batch_size, weakly
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


class _Function(NamedTuple):
    """What is known of closures of one concrete function."""

    concrete: Any  # weakly
    gradients: int  # that were seen by then
    trains: bool
    name: str


class _Chief:
    """Follows what the patched queue and workers do; nothing here raises.

    What happens is only noted, and worked out together a few times a second. Workers wait meanwhile, and one
    by one events take longer: between two of them the training pushes these hooks out of the caches.
    """

    def __init__(self, marker: Marker) -> None:
        self.running = threading.local()
        self._marker = marker
        self._rounds = Rounds()
        self.workers: Set[Any] = set()
        self._function = _Function(lambda: None, -1, False, "")  # of the newest closure
        self._sizes: Dict[int, Tuple[Any, Optional[int]]] = {}  # worker -> its iterator, weakly; its batches
        self._defers: Optional[bool] = None
        self._before_ns = self._worked_ns = 0  # when the last closure or wait ended; when all was worked out
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # what was noted is the parent's to send

    def _forget(self) -> None:
        self._log: Deque[Tuple[Any, ...]] = deque()  # what happened since it was worked out
        # A handler of a signal may end the process while this thread works it out.
        self._lock = threading.RLock()

    def put(self, closure: Any) -> None:
        try:
            if self._function_of(closure).trains:
                self._note("put", len(self.workers) or 1)
            else:
                self._note("broken")
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
            function = self._function_of(closure)
            if function.trains:
                index = int(worker.worker_index)
                ran = Closure(index, begin_ns, end_ns, self._examples(closure, function.name, index))
                self._note("finished", ran, len(self.workers) or 1)
                self._look(end_ns)
        except Exception:
            self._marker.failed("tf_coordinator")

    def waited(self) -> None:
        """All closures are done, and the training has waited for that."""
        try:
            now_ns = time.monotonic_ns()
            self._note("waited", now_ns, len(self.workers) or 1)
            self._look(now_ns)
        except Exception:
            self._marker.failed("tf_coordinator")

    def broken(self) -> None:
        """An evaluation or a checkpoint is over, which was part of no round."""
        self._note("broken")

    def ends(self) -> None:
        """The process ends."""
        try:
            self.work_out()
            with self._lock:
                self._mark(self._rounds.ends())
        except Exception:
            self._marker.failed("tf_coordinator")

    def _note(self, *event: Any) -> None:
        self._log.append(event)  # by any thread, in the order of what they do

    def _look(self, now_ns: int) -> None:
        """Work out what was noted if that was 400 ms ago, or steps are long enough for it not to matter."""
        if self._defers is None:
            self._defers = self._marker.defers(self.work_out)
        before_ns, self._before_ns = self._before_ns, now_ns
        if not self._defers or now_ns - before_ns > SHORT_NS or now_ns - self._worked_ns > DEFERRED_NS:
            self._worked_ns = now_ns
            self.work_out()

    def work_out(self) -> None:
        """Send the marks of all that was noted."""
        self._marker.tracing.refuse(NOTHING_HERE)
        payload.report(self._marker)
        # Marks of a worker go out in the order of its closures: under the lock.
        with self._lock:
            while self._log:
                event, *what = self._log.popleft()
                self._mark(getattr(self._rounds, event)(*what) or ())

    def _mark(self, found: Iterable[Step]) -> None:
        for number, asynchronous, ran in found:
            self._marker.window(
                number, ran.begin_ns, ran.end_ns, ran.examples, ("worker", ran.worker), asynchronous
            )

    def _function_of(self, closure: Any) -> _Function:
        concrete, known = getattr(closure, "_concrete_function", None), self._function
        if concrete is not None and known.concrete() is concrete and known.gradients == traced.gradients:
            return known
        name = _name(closure)
        # Without a gradient seen anywhere, whatever is scheduled may be what trains.
        is_step = name not in EVALUATION and (not traced.gradients or concrete is None or trains(concrete))
        found = _Function(weakly(concrete), traced.gradients, is_step, name)
        self._function = found
        return found

    def _examples(self, closure: Any, name: str, index: int) -> Optional[int]:
        arguments = (*closure._args, *closure._kwargs.values())
        # Keras with steps_per_execution passes their number along: it lies on a parameter server, not here.
        if name == "train_function" and len(arguments) > 1:
            return None
        for argument in arguments:
            values = getattr(argument, "_values", None)
            if values is not None and len(values) > index:
                size = self._size_of(values[index], index)
                if size is not None:
                    return size
        return None

    def _size_of(self, iterator: Any, index: int) -> Optional[int]:
        known = self._sizes.get(index)
        if known is not None and known[0]() is iterator:
            return known[1]
        size = batch_size(iterator)
        self._sizes[index] = weakly(iterator), size
        return size


def _name(closure: Any) -> str:
    graph = getattr(getattr(closure, "_concrete_function", None), "_func_graph", None)
    return str(getattr(graph, "name", ""))
