"""Keras `fit`: the object `make_train_function` makes is called once per step (or per `steps_per_execution`).

Under a parameter-server strategy that call only enqueues; the coordinator's hook marks there.
"""

from __future__ import annotations

import time
from typing import Any

from . import Marker, batch_size


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


class _Marked:
    """The train function, with a mark around every call; in all else the function itself."""

    def __init__(self, function: Any, model: Any, marker: Marker) -> None:
        self._function = function
        self._model = model
        self._marker = marker
        self._next = getattr(model, "_roofline_next_step", 0)

    def __call__(self, iterator: Any, *args: Any, **kwargs: Any) -> Any:
        begin = time.monotonic_ns()
        result = self._function(iterator, *args, **kwargs)
        end = time.monotonic_ns()
        try:
            self._mark(iterator, begin, end)
        except Exception:
            return result
        return result

    def _mark(self, iterator: Any, begin: int, end: int) -> None:
        if getattr(self._model, "_cluster_coordinator", None) is not None:
            return
        steps = _steps_per_call(self._model)
        size = batch_size(iterator)
        examples = None if size is None else size * steps
        self._marker.window(self._next, begin, end, examples)
        self._next += 1
        self._model.__dict__["_roofline_next_step"] = self._next

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # a copy in the making has none yet
            raise AttributeError(name)
        return getattr(self._function, name)


def _steps_per_call(model: Any) -> int:
    steps: Any = getattr(model, "_steps_per_execution", None)
    if steps is None:
        steps = getattr(model, "steps_per_execution", 1)
    return int(steps.numpy() if hasattr(steps, "numpy") else steps)
