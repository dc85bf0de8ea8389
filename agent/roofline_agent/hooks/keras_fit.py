"""Keras `fit`: the object `make_train_function` makes is called once per step (or per `steps_per_execution`).

Step k goes from the end of step k-1 to the end of its call, so callbacks are in it; the first of an epoch
begins with its own call, which leaves validation out. Under a parameter-server strategy the call only
enqueues; the coordinator's hook marks there.
"""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, Optional

from . import Marker
from .keras_batches import BatchCut, cut_of, yielded_by
from .tf_steps import steps


def patch(module: Any, marker: Marker) -> None:
    """module: the one that defines Model (Keras 2) or TensorFlowTrainer (Keras 3)."""
    owner = getattr(module, "Model", None) or module.TensorFlowTrainer
    make, fits = owner.make_train_function, _Fits()

    def make_train_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = make(self, *args, **kwargs)
        function = self.train_function if made is None else made
        if function is None or isinstance(function, _MarkedFunction):
            return made
        marked = _MarkedFunction(function, self, marker, fits)
        self.train_function = marked
        return None if made is None else marked

    owner.make_train_function = make_train_function
    _patch_borders(owner, fits)
    _patch_data(module, fits)


def _patch_borders(owner: Any, fits: _Fits) -> None:
    """Where the chain of steps breaks: at the begin of `fit` and of its epochs, and after an evaluation."""

    def before_fit(model: Any) -> None:
        fits.begins()
        steps.lead(model)

    def after_fit(_: Any) -> None:
        fits.ends()
        steps.broken()

    def before_reset(_: Any) -> None:
        # `fit` does this once an epoch, `train_on_batch` before every step.
        if fits.depth:
            steps.broken()

    _around(owner, "fit", before_fit, after_fit)
    _around(owner, "evaluate", _nothing, lambda _: steps.broken())
    _around(owner, "reset_metrics", before_reset, _nothing)


def _patch_data(module: Any, fits: _Fits) -> None:
    """The first source of data that is made in `fit` is the one that it trains on."""
    keras_2: Any = getattr(module, "data_adapter", None)
    if hasattr(keras_2, "get_data_handler"):
        make = keras_2.get_data_handler

        @functools.wraps(make)
        def get_data_handler(*args: Any, **kwargs: Any) -> Any:
            handler = make(*args, **kwargs)
            fits.data(getattr(handler, "_adapter", None))
            return handler

        keras_2.get_data_handler = get_data_handler
    elif hasattr(module, "TFEpochIterator"):
        epochs = module.TFEpochIterator
        create = epochs.__init__

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            create(self, *args, **kwargs)
            fits.data(getattr(self, "data_adapter", None))

        epochs.__init__ = __init__


class _Fits:
    """The `fit` that is running, and how it cuts its data into batches."""

    def __init__(self) -> None:
        self.depth = 0
        self._cut: Optional[BatchCut] = None
        self._known = False
        self._batches = 0  # taken in this fit

    def begins(self) -> None:
        self.depth += 1
        self._cut, self._known, self._batches = None, False, 0

    def ends(self) -> None:
        self.depth -= 1
        self._cut = None

    def data(self, adapter: Any) -> None:
        if self.depth and not self._known:
            self._cut, self._known = cut_of(adapter), True

    def examples(self, batches: int, workers: int) -> Optional[int]:
        """Of the next call, which takes so many batches; each worker has an equal part of them."""
        first, self._batches = self._batches, self._batches + batches
        total = self._cut.examples(first, batches) if self._cut is not None else None
        return total // workers if total is not None and total % workers == 0 else None


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


class _MarkedFunction:
    """The train function, with a mark around every call; in all else the function itself."""

    def __init__(self, function: Any, model: Any, marker: Marker, fits: _Fits) -> None:
        self._function = function
        self._model = model
        self._marker = marker
        self._fits = fits

    def __call__(self, iterator: Any, *args: Any, **kwargs: Any) -> Any:
        begin = time.monotonic_ns()
        steps.quiet += 1
        try:
            result = self._function(iterator, *args, **kwargs)
        finally:
            steps.quiet -= 1
        end = time.monotonic_ns()
        try:
            if getattr(self._model, "_cluster_coordinator", None) is None:
                steps.ended(self._marker, self._model, begin, end, self._examples(iterator))
        except Exception:
            pass
        return result

    def _examples(self, iterator: Any) -> Optional[int]:
        model = self._model
        batches: Any = getattr(model, "_steps_per_execution", None)
        if batches is None:
            batches = getattr(model, "steps_per_execution", 1)
        batches = int(batches.numpy() if hasattr(batches, "numpy") else batches)
        extended = getattr(getattr(model, "distribute_strategy", None), "extended", None)
        workers = int(getattr(extended, "_num_workers", 1) or 1)
        cut = self._fits.examples(batches, workers)
        size = yielded_by(iterator)
        return cut if size is None else size * batches

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # a copy in the making has none yet
            raise AttributeError(name)
        return getattr(self._function, name)
