"""Training loops written by hand in TensorFlow: the outermost tf.function in which a gradient is taken is the
step.

A gradient with respect to a variable, taken while a function is traced, makes that function a training step:
this call of it and all later ones are marked. A gradient taken with no function around (eager training) ends
a step itself. Evaluation takes no gradient and so is no step. The hooks of Keras
and of the coordinator mark their own steps.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Callable, Iterator, Optional

from . import Marker
from .keras_batches import yielded_by
from .tf_steps import steps


class _Thread(threading.local):
    inside = False  # a tf.function is being called or traced
    tape_ns: Optional[int] = None  # when the newest tape began to record


class _Gradients:
    taken = 0  # with respect to variables, inside functions


thread = _Thread()
gradients = _Gradients()
_now = time.monotonic_ns


def patch(module: Any, marker: Marker) -> None:
    """module: tensorflow.python.eager.backprop or ...polymorphic_function.polymorphic_function."""
    if hasattr(module, "GradientTape"):
        _patch_tape(module, marker)
    else:
        _patch_function(module.Function, marker)


def _patch_function(function: Any, marker: Marker) -> None:
    call, concrete = function.__call__, function.get_concrete_function

    # Both wrappers in full: a helper between them and TensorFlow would cost every call of a step.
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if thread.inside or steps.quiet:
            return call(self, *args, **kwargs)
        thread.inside, taken, begin = True, gradients.taken, _now()
        try:
            result = call(self, *args, **kwargs)
        except BaseException:
            if hasattr(self, "_roofline_trains"):
                steps.broken()
            raise
        finally:
            thread.inside = False
        if gradients.taken != taken:
            self._roofline_trains = True
        if hasattr(self, "_roofline_trains"):
            end = _now()
            try:
                if not steps.coordinated:
                    arguments = (*args, *kwargs.values()) if kwargs else args
                    steps.ended(marker, self, begin, end, examples_of(arguments))
            except Exception:
                return result
        return result

    def get_concrete_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        if thread.inside or steps.quiet:
            return concrete(self, *args, **kwargs)
        thread.inside, taken = True, gradients.taken
        try:
            return concrete(self, *args, **kwargs)
        finally:
            thread.inside = False
            if gradients.taken != taken:
                self._roofline_trains = True

    function.__call__ = __call__
    function.get_concrete_function = get_concrete_function


def _patch_tape(module: Any, marker: Marker) -> None:
    tape, context, default_graph = module.GradientTape, module.context, module.ops.get_default_graph
    gradient, enter = tape.gradient, tape.__enter__

    def taken(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        begin = _now()
        found = gradient(self, target, sources, *args, **kwargs)
        try:
            _gradient_taken(marker, sources, begin, context.executing_eagerly(), default_graph)
        except Exception:
            pass
        return found

    def entered(self: Any) -> Any:
        thread.tape_ns = _now()
        return enter(self)

    taken.__name__, taken.__doc__ = gradient.__name__, gradient.__doc__
    tape.gradient = taken
    tape.__enter__ = entered


def _gradient_taken(
    marker: Marker, sources: Any, begin: int, eager: bool, default_graph: Callable[[], Any]
) -> None:
    first = next(_variables(sources), None)
    if first is None:  # a gradient with respect to an input trains nothing
        return
    if thread.inside or not eager:
        gradients.taken += 1
    if not eager:
        # The graph of the outermost function: each graph knows the one that it is traced in.
        graph = default_graph()
        while hasattr(getattr(graph, "outer_graph", None), "outer_graph"):
            graph = graph.outer_graph
        graph._roofline_trains = True
        # Other hooks know the size better: of the placed variables, of what Horovod reduces.
        if not steps.coordinated and "horovod.tensorflow" not in sys.modules:
            # Of all gradients together that one call of this function takes.
            sizes = graph.__dict__.setdefault("_roofline_gradients", {})
            for variable in _variables(sources):
                sizes[id(variable)] = int(variable.shape.num_elements()) * int(variable.dtype.size)
            marker.fact("gradient.bytes", sum(sizes.values()))
            marker.fact("gradient.tensors", len(sizes))
    elif not thread.inside and not steps.quiet and not steps.coordinated:
        steps.ended(marker, first, begin, _now(), None, "phase.backward", thread.tape_ns)


def _variables(sources: Any) -> Iterator[Any]:
    if isinstance(sources, dict):
        sources = list(sources.values())
    if isinstance(sources, (list, tuple)):
        for one in sources:
            yield from _variables(one)
    elif getattr(sources, "trainable", None) is not None:
        yield sources


def trains(concrete_function: Any) -> bool:
    """Whether a gradient was taken while this was traced."""
    return hasattr(getattr(concrete_function, "graph", None), "_roofline_trains")


EAGER = "EagerTensor"


def examples_of(arguments: Any) -> Optional[int]:
    """First dimension of the first tensor that has one, or what an iterator among the arguments yields."""
    try:
        for argument in arguments:
            if type(argument).__name__ != EAGER:
                break
            shape = argument._shape_tuple()  # private, and twenty times as fast as `shape`
            if shape:
                return int(shape[0])
    except Exception:
        pass  # this TensorFlow has no such method, or another one: the slower way finds the same
    try:
        return _first_size(arguments)
    except Exception:
        return None  # unknown then, which a report shows; the training must not notice


def _first_size(arguments: Any) -> Optional[int]:
    for argument in arguments:
        size = _size(argument)
        if size is not None:
            return size
    return None


def _size(argument: Any) -> Optional[int]:
    if isinstance(argument, dict):
        return _first_size(argument.values())
    if isinstance(argument, (list, tuple)):
        return _first_size(argument)
    if hasattr(argument, "__next__"):
        return yielded_by(argument)
    if hasattr(argument, "trainable"):  # a variable or a layer
        return None
    values = getattr(argument, "_values", None)  # a value per replica of this process
    if isinstance(values, (list, tuple)):
        sizes = [_size(value) for value in values]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    shape = getattr(argument, "shape", None)
    return int(shape[0]) if shape else None
