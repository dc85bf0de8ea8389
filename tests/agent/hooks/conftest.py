"""Made-up frameworks with the shape of the real ones, for programs in real processes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline_agent.hooks.torch.recorder import Recorder, recorder

from tests.fakes import FakeAgent

from .doubles import RecordingMarker
from .site import (
    COORDINATOR,
    FUNCTION,
    HOROVOD_MPI_OPS,
    HOROVOD_OPTIMIZER,
    ITERATOR,
    KERAS_2,
    TAPE,
    Cuda,
    Site,
)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with FakeAgent(tmp_path / "agent.sock") as agent:
        yield Site(tmp_path, agent)


@pytest.fixture
def torch(site: Site) -> Site:
    site.module(
        "torch.optim.optimizer",
        """
        before, after = [], []
        def register_optimizer_step_pre_hook(hook): before.append(hook)
        def register_optimizer_step_post_hook(hook): after.append(hook)
        class Optimizer:
            def step(self):
                for hook in before: hook(self, (), {})
                for hook in after: hook(self, (), {})
        """,
    )
    return site


@pytest.fixture
def cuda(tmp_path: Path) -> Cuda:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    return Cuda(tmp_path)


@pytest.fixture
def horovod(site: Site) -> Site:
    site.module("horovod.torch.mpi_ops", HOROVOD_MPI_OPS)
    site.module("horovod.torch.optimizer", HOROVOD_OPTIMIZER)
    return site


@pytest.fixture
def keras_2(site: Site) -> Site:
    """Model.make_train_function keeps what it made and returns it; fit asks for it each time."""
    site.module(
        KERAS_2,
        """
        class Spec:
            def __init__(self, *shape): self.shape = shape
        class Iterator:
            element_spec = (Spec(32, 8), Spec(32,))
        class Model:
            train_function = None
            def __init__(self, steps=1): self._steps_per_execution = steps
            def make_train_function(self, force=False):
                if self.train_function is not None and not force: return self.train_function
                def function(iterator): return {"loss": 1}
                function.name = "mine"
                self.train_function = function
                return function
            def reset_metrics(self): pass
            def evaluate(self): self.reset_metrics()
            def save(self): self.save_weights()
            def save_weights(self): pass
            def train_on_batch(self, x=None):
                self.reset_metrics()
                self.train_function = self.make_train_function()
                return self.train_function(Iterator())
            def fit(self, steps, iterator=None, epochs=1, between=lambda: None):
                self.train_function = self.make_train_function()
                for _ in range(epochs):
                    self.reset_metrics()
                    for _ in range(steps): logs = self.train_function(iterator or Iterator()); between()
                return logs
        """,
    )
    return site


@pytest.fixture
def eager(site: Site) -> Site:
    """A function runs its Python only when it is traced; a tape gives gradients, an iterator batches."""
    site.module(
        TAPE,
        """
        class Graph:
            def __init__(self, outer=None):
                if outer is not None: self.outer_graph = outer
        class context:
            eager = True
            def executing_eagerly(): return context.eager
        class ops:
            graph = Graph()
            def get_default_graph(): return ops.graph
        class Shape:
            def num_elements(self): return 10
        class Type: size = 4
        class Variable: trainable, shape, dtype = True, Shape(), Type
        class Tensor:
            def __init__(self, *shape): self.shape = shape
        class GradientTape:
            def __enter__(self): return self
            def __exit__(self, *_): pass
            def gradient(self, target, sources, output_gradients=None): return [target] * len(sources)
        """,
    )
    site.module(
        FUNCTION,
        f"""
        from {TAPE} import context, ops, Graph
        class Function:
            def __init__(self, python): self.python, self.traced = python, False
            def __call__(self, *args, **kwargs):
                if not self.traced: self.trace(args, kwargs)
                return "ran"
            def get_concrete_function(self, *args, **kwargs): self.trace(args, kwargs)
            def trace(self, args, kwargs):
                eager, outer, context.eager, ops.graph = context.eager, ops.graph, False, Graph(ops.graph)
                self.python(*args, **kwargs)
                context.eager, ops.graph, self.traced = eager, outer, True
        """,
    )
    site.module(
        ITERATOR,
        f"""
        from {TAPE} import context, Tensor
        class errors:
            class OutOfRangeError(Exception): pass
        class OwnedIterator:
            def __init__(self, batches): self.left = batches
            def __iter__(self): return self
            def _next_internal(self):
                if not self.left: raise errors.OutOfRangeError
                self.left -= 1
                return Tensor(4, 3), Tensor(4)
            def __next__(self):
                try: return self._next_internal()
                except errors.OutOfRangeError: raise StopIteration
        """,
    )
    return site


@pytest.fixture
def coordinator(site: Site) -> Site:
    """A worker runs a closure; with its result it says mark_finished, on failure the closure is put back."""
    site.module(
        COORDINATOR,
        """
        class _CoordinatedClosureQueue:
            def __init__(self): self.finished = self.back = 0
            def put(self, closure, tag=None): pass
            fail = False
            def wait(self, timeout=None):
                if self.fail: raise RuntimeError("closure")
                return timeout is None
            def done(self): return True
            def mark_finished(self): self.finished += 1
            def put_back(self): self.back += 1
        class Worker:
            def __init__(self, index, queue): self.worker_index, self.queue = index, queue
            def _process_closure(self, closure):
                try: closure.run()
                except ValueError: self.queue.put_back()
                else: self.queue.mark_finished()
        class _Graph: pass
        class Closure:
            def __init__(self, name="step_fn", run=lambda: None, args=(), kwargs=None):
                self._args, self._kwargs, self.run = args, kwargs or {}, run
                self._concrete_function = _Graph()
                self._concrete_function._func_graph = _Graph()
                self._concrete_function._func_graph.name = name
        class Spec:
            def __init__(self, *shape): self.shape = shape
        class Value:
            def __init__(self, n): self._type_spec = _Graph(); self._type_spec._element_spec = (Spec(n, 3),)
        class PerWorker:
            def __init__(self, *sizes): self._values = [Value(n) for n in sizes]
        def fail(): raise ValueError
        def train(worker, **options):
            closure = Closure(**options)
            worker.queue.put(closure)
            worker._process_closure(closure)
        """,
    )
    return site


@pytest.fixture
def marker() -> RecordingMarker:
    return RecordingMarker()


@pytest.fixture
def record(marker: RecordingMarker) -> Recorder:
    return recorder(marker)  # type: ignore[arg-type]
