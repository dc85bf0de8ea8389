"""Keras `fit` and `train_on_batch`: the object `make_train_function` makes is called once per step, or per
`steps_per_execution` steps.

Step k goes from the end of step k-1 to the end of its call, so callbacks are in it; the first of an epoch
begins with its own call, and what lies before it is between the steps. Under a parameter-server strategy the
call only enqueues; the coordinator's hook marks there.
"""

from __future__ import annotations

import functools
import time
import weakref
from itertools import count
from typing import Any, Callable, Dict, List, Optional, Tuple

from .. import Marker
from ..tf import between as tf_between
from ..tf.accumulation import Accumulation
from ..tf.calls import TrainingCall
from ..tf.calm import CalmFunction
from ..tf.iterators import Yields, yielded_by
from ..tf.steps import steps
from ..tf.training_function import MOST_KINDS, describe
from ..tf.updates import UpdateCounter, UpdatesOfCalls, counters
from .batches import BatchCut, cut_of

_numbers, _calm = count(), steps.calm
_now = time.monotonic_ns


def patch(module: Any, marker: Marker) -> None:
    """module: the one that defines Model (Keras 2) or TensorFlowTrainer (Keras 3)."""
    owner = getattr(module, "Model", None) or module.TensorFlowTrainer
    make, fits = owner.make_train_function, _Fits(marker)

    def make_train_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = make(self, *args, **kwargs)
        function = self.train_function if made is None else made
        if function is None or isinstance(function, _MarkedFunction):
            return made
        marked = _MarkedFunction(function, self, fits)
        self.train_function = marked
        return None if made is None else marked

    owner.make_train_function = make_train_function
    _patch_borders(owner, fits)
    _patch_batch(owner, fits)
    _patch_data(module, fits)
    for name in tf_between.EVALUATES:
        tf_between.mark_between(owner, name, "evaluation", marker)
    tf_between.patch(module, marker)


def _patch_borders(owner: Any, fits: _Fits) -> None:
    """Where the chain of steps breaks: at the begin of `fit` and of its epochs."""

    def before_fit(model: Any) -> None:
        fits.begins(model)
        steps.lead(model)

    def after_fit(_: Any) -> None:
        outer = fits.ends()
        if outer is None:
            steps.broken()
        else:
            steps.lead(outer)

    def before_reset(_: Any) -> None:
        # `fit` does this once an epoch, `train_on_batch` before every step.
        if fits.running and not steps.away:
            fits.epoch()
            steps.broken()

    _around(owner, "fit", before_fit, after_fit)
    _around(owner, "reset_metrics", before_reset, lambda _: None)


def _patch_batch(owner: Any, fits: _Fits) -> None:
    """A step of `train_on_batch` is over when that returns, with its loss."""
    train = getattr(owner, "train_on_batch", None)
    if train is None:
        return

    @functools.wraps(train)
    def train_on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        begin, fits.held, fits.holding = _now(), None, True
        try:
            return train(self, *args, **kwargs)
        finally:
            fits.holding = False
            if fits.held is not None:
                fits.release(self, begin, (*args, *kwargs.values()))

    owner.train_on_batch = train_on_batch


def _patch_data(module: Any, fits: _Fits) -> None:
    """The first source of data that is made in `fit` is the one that it trains on."""
    keras_2: Any = getattr(module, "data_adapter", None)
    if hasattr(keras_2, "get_data_handler"):
        make = keras_2.get_data_handler

        @functools.wraps(make)
        def get_data_handler(*args: Any, **kwargs: Any) -> Any:
            handler = make(*args, **kwargs)
            fits.data(handler, getattr(handler, "_adapter", None))
            return handler

        keras_2.get_data_handler = get_data_handler
    elif hasattr(module, "TFEpochIterator"):
        epochs = module.TFEpochIterator
        create = epochs.__init__

        @functools.wraps(create)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            create(self, *args, **kwargs)
            fits.data(self, getattr(self, "data_adapter", None))

        epochs.__init__ = __init__


class _Fit:
    """One `fit`, and how it cuts its data into batches; without a model none."""

    def __init__(self, model: Any = None) -> None:
        self.model = model
        self.cut: Optional[BatchCut] = None
        self.source: Any = None  # of its batches
        self.batches = 0  # taken
        self.epoch = 0  # of them, before this epoch
        self.counter: Optional[UpdateCounter] = None
        self.before = 0  # updates counted before
        self.updates: Optional[UpdatesOfCalls] = None
        self.accumulation = Accumulation(None)
        self.singly = False  # each call makes one update


class _Fits:
    """The `fit` that is running."""

    def __init__(self, marker: Marker) -> None:
        self.running: List[_Fit] = []  # a callback of one may run another
        self.holding = False  # in train_on_batch
        self.held: Optional[Tuple[_MarkedFunction, Optional[int]]] = None  # what was called there
        self._marker = marker
        self._fit = _Fit()

    def failed(self) -> None:
        """For an `except`: a call of the training could not be followed."""
        self._marker.failed("keras_fit")

    def begins(self, model: Any) -> None:
        steps.settle()
        fit = self._fit = _Fit(model)
        self.running.append(fit)
        try:
            each, optimizer = _steps_per_execution(model), getattr(model, "optimizer", None)
            accumulates = Accumulation(optimizer).each > 1
            fit.singly = not (
                each > 1 or accumulates or getattr(model, "autotune_steps_per_execution", False)
            )
            # Only where the data may end inside a call, or an update takes several, is it worth to wait for
            # the counter.
            if each > 1 or accumulates:
                fit.counter = counters.of(optimizer)
                fit.before = (fit.counter.read() or 0) if fit.counter is not None else 0
                fit.accumulation = Accumulation(optimizer, fit.before)
        except Exception:
            self.failed()

    def ends(self) -> Any:
        """The model of the `fit` that goes on, inside which this one was; None: there is none."""
        steps.settle()
        self.running.pop()
        self._fit = self.running[-1] if self.running else _Fit()
        return self._fit.model

    def epoch(self) -> None:
        """The next one begins."""
        self._fit.epoch = self._fit.batches

    def data(self, source: Any, adapter: Any) -> None:
        """Keras 2's data handler or Keras 3's epoch iterator was made."""
        if self.running and self._fit.source is None:
            self._fit.source, self._fit.cut = source, cut_of(adapter)

    def batches(self, model: Any, call_ns: int) -> int:
        """How many batches the call took which has just ended."""
        fit = self._fit
        each = getattr(fit.source, "_step_increment", None)  # of Keras 2, for this very call
        if each is not None:
            return int(each) + 1
        each = _steps_per_execution(model)
        if each == 1:
            return each
        left = getattr(fit.source, "num_batches", None)
        if left is not None:
            return max(1, min(each, int(left) - (fit.batches - fit.epoch)))
        if fit.updates is None:
            fit.updates = UpdatesOfCalls(fit.counter, fit.before, each, True)
        return fit.updates.made(call_ns)

    def updates(self, batches: int) -> int:
        """How many updates the call made, which took so many batches."""
        return self._fit.accumulation.updates(batches)

    def examples(self, batches: int, size: Optional[int], workers: int) -> Optional[int]:
        """How many examples the call had, which took so many batches of `size` examples (None: not known);
        else each worker has an equal part of what was cut."""
        fit = self._fit
        first, fit.batches = fit.batches, fit.batches + batches
        if size is not None:
            return size * batches
        total = fit.cut.examples(first, batches) if fit.cut is not None else None
        return total // workers if total is not None and total % workers == 0 else None

    def called(self, function: _MarkedFunction, model: Any, iterator: Any, call: TrainingCall) -> None:
        self.ended(model, call)
        if self._fit.singly:
            steps.calm_down(self._marker, function, iterator)

    def ended(self, model: Any, call: TrainingCall) -> None:
        steps.ended(self._marker, model, call)
        steps.cost.over(self._marker, steps.number, call.end_ns)

    def were_called(self, model: Any, calls: List[TrainingCall], counts: List[Any]) -> None:
        """Calls of calm steps were noted, which are worked out now."""
        steps.were_ended(self._marker, model, calls, counts)

    def release(self, model: Any, begin_ns: int, arguments: Any) -> None:
        """train_on_batch is over, which began then, with these arguments."""
        held, self.held, end = self.held, None, _now()
        if held is None:
            return
        try:
            function, yielded = held
            batches = function.batches
            call = batches.kind_of(arguments, yielded)
            if _calm.function is batches:
                if _calm.add((batches, begin_ns, end, call)):
                    steps.calm_border(end)
                return
            updates = batches.accumulation.updates(1)
            self.ended(model, call._replace(begin_ns=begin_ns, end_ns=end, updates=updates))
            if batches.accumulation.each == 1:
                steps.calm_down(self._marker, batches, None)
        except Exception:
            self.failed()


def _steps_per_execution(model: Any) -> int:
    each: Any = getattr(model, "_steps_per_execution", None)
    if each is None:
        each = getattr(model, "steps_per_execution", 1)
    return int(each.numpy() if hasattr(each, "numpy") else each)


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


class _MarkedFunction(CalmFunction):
    """The train function, with a mark around every call; in all else the function itself."""

    takes_input = False  # but inside of its call

    def __init__(self, function: Any, model: Any, fits: _Fits) -> None:
        self._function = function
        self._model = model
        self._fits = fits
        self.number = next(_numbers)
        self._yields = Yields()
        self._yielded: Tuple[Optional[int], bool] = (None, False)  # by the iterator of the last call
        self.batches = _Batches(self.number, model, fits)
        self._workers = 0  # of the model's strategy; 0: not known yet

    def __call__(self, iterator: Any, *args: Any, **kwargs: Any) -> Any:
        begin = _now()
        steps.quiet += 1
        try:
            result = self._function(iterator, *args, **kwargs)
        finally:
            steps.quiet -= 1
        end = _now()
        if _calm.iterator is iterator and _calm.function is self:
            if _calm.add((self, begin, end)):
                steps.calm_border(end)
            return result
        try:
            model, fits = self._model, self._fits
            if getattr(model, "_cluster_coordinator", None) is not None or steps.away:
                return result
            if fits.holding:
                # Not the iterator: Keras lets go of it in its own time.
                fits.held = self, None if self.batches.by_arguments else yielded_by(iterator)
                return result
            steps.settle()
            batches = fits.batches(model, end - begin)
            self._yielded = self._yields.by(iterator)
            fits.called(self, model, iterator, self._call(begin, end, batches))
        except Exception:
            fits.failed()
            return result
        return result

    def _call(self, begin_ns: int, end_ns: int, batches: int) -> TrainingCall:
        size, fixed = self._yielded
        updates = self._fits.updates(batches)
        examples = self._fits.examples(batches, size, self._workers or self._count_workers())
        signature = (self.number, size) if fixed else None
        return TrainingCall(begin_ns, end_ns, examples, updates=updates, signature=signature)

    def work_out(self, noted: List[Any]) -> None:
        """Work out calls of calm steps: begin and end, perhaps what the thread had in the step."""
        try:
            calls = [self._call(one[0], one[1], 1) for one in noted]
            counts = [one[2] if len(one) > 2 else None for one in noted]
            self._fits.were_called(self._model, calls, counts)
        except Exception:
            self._fits.failed()

    def _count_workers(self) -> int:
        """Looked up once: a model stays with the strategy it was made under."""
        extended = getattr(getattr(self._model, "distribute_strategy", None), "extended", None)
        self._workers = int(getattr(extended, "_num_workers", 1) or 1)
        return self._workers

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # a copy in the making has none yet
            raise AttributeError(name)
        return getattr(self._function, name)


class _Batches(CalmFunction):
    """Batches that one model was trained on by train_on_batch."""

    takes_input = False

    def __init__(self, number: int, model: Any, fits: _Fits) -> None:
        self._number, self._fits = number, fits
        self._model = weakref.ref(model)  # what was noted must not keep it from being freed
        self._kinds: Dict[Any, TrainingCall] = {}
        self.accumulation = Accumulation(getattr(model, "optimizer", None))
        self.by_arguments = False  # arguments tell how many examples this process trains on

    def kind_of(self, arguments: Any, yielded: Optional[int]) -> TrainingCall:
        """A call with these arguments, whose iterator yields so many examples (None: not known or asked);
        when it was is not filled in."""
        size, key = describe(arguments)
        kind = self._kinds.get((key, yielded))
        if kind is None:
            if not self.by_arguments:
                self.by_arguments = size is not None and yielded in (None, size)
            examples = size if yielded is None else yielded
            kind = TrainingCall(0, 0, examples, signature=("batch", self._number, key))
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            self._kinds[key, yielded] = kind
        return kind

    def work_out(self, noted: List[Any]) -> None:
        """Work out calm steps: begin, end and kind of each call, perhaps what the thread had in the step."""
        try:
            calls = [kind._replace(begin_ns=begin, end_ns=end) for begin, end, kind, *_ in noted]
            counts = [one[3] if len(one) > 3 else None for one in noted]
            self._fits.were_called(self._model(), calls, counts)
        except Exception:
            self._fits.failed()
