"""Keras `fit`: the object `make_train_function` makes is called once per step (or per `steps_per_execution`).

Step k goes from the end of step k-1 to the end of its call, so callbacks are in it; the first of an epoch
begins with its own call, which leaves validation out. Under a parameter-server strategy the call only
enqueues; the coordinator's hook marks there.
"""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, List

from . import Marker, batch_size
from .tf_steps import steps


def patch(module: Any, marker: Marker) -> None:
    """module: the one that defines Model (Keras 2) or TensorFlowTrainer (Keras 3)."""
    owner = getattr(module, "Model", None) or module.TensorFlowTrainer
    make = owner.make_train_function

    def make_train_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = make(self, *args, **kwargs)
        function = self.train_function if made is None else made
        if function is None or isinstance(function, _Marked):
            return made
        marked = _Marked(function, self, marker)
        self.train_function = marked
        return None if made is None else marked

    owner.make_train_function = make_train_function
    _patch_borders(owner)


def _patch_borders(owner: Any) -> None:
    """Where the chain of steps breaks: at the begin of `fit` and of its epochs, and after an evaluation."""
    fitting: List[Any] = []

    def before_fit(model: Any) -> None:
        fitting.append(model)
        steps.lead(model)

    def after_fit(_: Any) -> None:
        fitting.pop()
        steps.broken()

    def before_reset(_: Any) -> None:
        # `fit` does this once an epoch, `train_on_batch` before every step.
        if fitting:
            steps.broken()

    _around(owner, "fit", before_fit, after_fit)
    _around(owner, "evaluate", _nothing, lambda _: steps.broken())
    _around(owner, "reset_metrics", before_reset, _nothing)


def _around(owner: Any, name: str, before: Callable[[Any], None], after: Callable[[Any], None]) -> None:
    method = getattr(owner, name, None)
    if method is None:
        return

    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        before(self)
        try:
            return method(self, *args, **kwargs)
        finally:
            after(self)

    setattr(owner, name, called)


def _nothing(_: Any) -> None:
    return


class _Marked:
    """The train function, with a mark around every call; in all else the function itself."""

    def __init__(self, function: Any, model: Any, marker: Marker) -> None:
        self._function = function
        self._model = model
        self._marker = marker

    def __call__(self, iterator: Any, *args: Any, **kwargs: Any) -> Any:
        begin = time.monotonic_ns()
        steps.quiet += 1
        try:
            result = self._function(iterator, *args, **kwargs)
        finally:
            steps.quiet -= 1
        end = time.monotonic_ns()
        try:
            self._mark(iterator, begin, end)
        except Exception:
            return result
        return result

    def _mark(self, iterator: Any, begin: int, end: int) -> None:
        if getattr(self._model, "_cluster_coordinator", None) is not None:
            return
        size = batch_size(iterator)
        examples = None if size is None else size * _steps_per_call(self._model)
        steps.ended(self._marker, self._model, begin, end, examples)

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # a copy in the making has none yet
            raise AttributeError(name)
        return getattr(self._function, name)


def _steps_per_call(model: Any) -> int:
    steps_per_call: Any = getattr(model, "_steps_per_execution", None)
    if steps_per_call is None:
        steps_per_call = getattr(model, "steps_per_execution", 1)
    return int(steps_per_call.numpy() if hasattr(steps_per_call, "numpy") else steps_per_call)
