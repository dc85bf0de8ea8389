"""Training loops written by hand in TensorFlow: the outermost tf.function in which a gradient is taken is the
step.

A gradient with respect to a variable, taken while a function is traced, makes that function a training step:
this call of it and all later ones are marked, with as many steps as it makes updates (training_function.py).
A gradient taken with no function around (eager training) ends a step itself. Evaluation takes no gradient
and so is no step. The hooks of Keras and of the coordinator mark their own steps.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Callable, Iterator, Optional

from .. import Marker
from ..signals import raise_again
from .calls import TrainingCall
from .eager import BACKWARD, eager_loop
from .graph_contents import ATTRIBUTE, GraphContents, contents_of, outermost, traced
from .steps import steps
from .training_function import TrainingFunction, UpdatingFunction
from .updates import counters


class _Thread(threading.local):
    inside = False  # a tf.function is being called or traced
    tape_ns: Optional[int] = None  # when the newest tape began to record


thread = _Thread()
_now, _calm = time.monotonic_ns, steps.calm


def patch(module: Any, marker: Marker) -> None:
    """module: tensorflow.python.eager.backprop or ...polymorphic_function.polymorphic_function."""
    if hasattr(module, "GradientTape"):
        _patch_tape(module, marker)
    else:
        _patch_function(module.Function, marker)
        marker.look_for_switches()


def _patch_function(function: Any, marker: Marker) -> None:
    call, concrete = function.__call__, function.get_concrete_function

    # Both wrappers in full: a helper between them and TensorFlow would cost every call of a step.
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if steps.quiet or thread.inside:
            return call(self, *args, **kwargs)
        if not hasattr(self, "_roofline_training"):
            _meet(self)
        thread.inside, known, begin = True, traced.count, _now()
        try:
            result = call(self, *args, **kwargs)
        except BaseException:
            _failed(self)
            raise
        finally:
            thread.inside = False
        end = _now()
        if traced.count != known:
            _learn(self, marker)
        training = self._roofline_training
        try:
            if training is None or steps.coordinated or steps.away:
                steps.look(end)
                return result
            arguments = (*args, *kwargs.values()) if kwargs else args
            if _calm.function is not training:
                _ended(marker, self, training.call, begin, end, arguments)
            elif training.note(_calm, begin, end, arguments):
                steps.calm_border(end)
        except Exception:
            marker.failed("tf_function")
        return result

    def get_concrete_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        if thread.inside or steps.quiet:
            return concrete(self, *args, **kwargs)
        return _traced_beforehand(self, marker, concrete, args, kwargs)

    function.__call__ = __call__
    function.get_concrete_function = get_concrete_function


def _traced_beforehand(
    self: Any, marker: Marker, concrete: Callable[..., Any], args: Any, kwargs: Any
) -> Any:
    if not hasattr(self, "_roofline_training"):
        _meet(self)
    thread.inside, known = True, traced.count
    try:
        return concrete(self, *args, **kwargs)
    finally:
        thread.inside = False
        if traced.count != known:
            _learn(self, marker)


def _ended(
    marker: Marker, function: Any, call: Callable[..., Any], begin: int, end: int, arguments: Any
) -> None:
    """A call that trains ended, which is no calm step; the next ones may be."""
    steps.settle()  # before the function looks at the counter of its updates
    steps.ended(marker, function, call(begin, end, arguments))
    steps.cost.over(marker, steps.number, end)
    training = function._roofline_training
    if isinstance(training, TrainingFunction):
        steps.calm_down(marker, training, None)


def _failed(function: Any) -> None:
    if getattr(function, "_roofline_training", None) is not None:
        steps.broken()


def _meet(function: Any) -> None:
    """Look at a function that is about to be called for the first time."""
    function._roofline_training = None  # before all that may fail
    try:
        function._roofline_before = counters.values()
    except Exception:  # then all updates count as made since
        raise_again()
        function._roofline_before = {}


def _learn(function: Any, marker: Marker) -> None:
    """A gradient was taken, or an optimizer called, while it was traced."""
    try:
        steps.settle()  # calls before this one are of what was known before
        training = function._roofline_training
        if traced.graph is not None and not contents_of(traced.graph).gradients:
            function._roofline_training, traced.graph = training or UpdatingFunction(), None
            return
        if not isinstance(training, TrainingFunction):
            before = function.__dict__.pop("_roofline_before", {})
            training = function._roofline_training = TrainingFunction(before, function, marker)
        training.learn(traced.graph)
        traced.graph = None
    except Exception:
        raise_again()  # else it is not taken for a training then; what is marked otherwise is


def _patch_tape(module: Any, marker: Marker) -> None:
    tape, context, default_graph = module.GradientTape, module.context, module.ops.get_default_graph
    gradient, enter = tape.gradient, tape.__enter__

    def taken(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        begin = _now()
        found = gradient(self, target, sources, *args, **kwargs)
        try:
            _gradient_taken(marker, sources, begin, context.executing_eagerly(), default_graph)
        except Exception:
            marker.failed("tf_function")
        return found

    def entered(self: Any) -> Any:
        thread.tape_ns = _now()
        return enter(self)

    # By its module AutoGraph knows that there is nothing in it to convert.
    taken.__name__, taken.__doc__, taken.__module__ = gradient.__name__, gradient.__doc__, gradient.__module__
    tape.gradient = taken
    tape.__enter__ = entered


def _gradient_taken(
    marker: Marker, sources: Any, begin: int, eager: bool, default_graph: Callable[[], Any]
) -> None:
    first = next(_variables(sources), None)
    if first is None:  # a gradient with respect to an input trains nothing
        return
    if thread.inside or not eager:
        traced.gradients += 1
        traced.count += 1
    if not eager:
        inner = default_graph()
        graph, repeated = outermost(inner)
        contents = contents_of(graph)
        contents.gradient(first, repeated, inner)
        traced.graph = graph
        # Other hooks know the size better: of the placed variables, of what Horovod reduces.
        if not steps.coordinated and "horovod.tensorflow" not in sys.modules:
            # Of all gradients together that one call of this function takes.
            for variable in _variables(sources):
                contents.sizes[id(variable)] = int(variable.shape.num_elements()) * _bytes_of(variable.dtype)
            marker.fact("gradient.bytes", sum(contents.sizes.values()))
            marker.fact("gradient.tensors", len(contents.sizes))
    elif not (thread.inside or steps.quiet or steps.coordinated or steps.away):
        end = _now()
        call = TrainingCall(begin, end, None, BACKWARD, thread.tape_ns, signature=("by hand", id(first)))
        eager_loop.gradient(marker, first, call, bool(counters.alive()))
        if steps.cost.measuring:
            steps.cost.spent(end)


def _variables(sources: Any) -> Iterator[Any]:
    if isinstance(sources, dict):
        sources = list(sources.values())
    if isinstance(sources, (list, tuple)):
        for one in sources:
            yield from _variables(one)
    elif getattr(sources, "trainable", None) is not None:
        yield sources


def _bytes_of(dtype: Any) -> int:
    """Of an element. Variables of Keras 3 name their type, as "float32"."""
    if isinstance(dtype, str):
        dtype = sys.modules["tensorflow"].as_dtype(dtype)
    return int(dtype.size)


def trains(concrete_function: Any) -> bool:
    """Whether a gradient was taken while this was traced."""
    contents = getattr(getattr(concrete_function, "graph", None), ATTRIBUTE, None)
    return isinstance(contents, GraphContents) and contents.gradients > 0
