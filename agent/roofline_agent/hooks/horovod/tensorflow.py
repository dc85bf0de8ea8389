"""Horovod under TensorFlow: how many tensors, and how many bytes, a step reduces.

Both are known when a step is traced, for the reduction is put into its graph then; steps are marked by the
hooks of Keras and of tf.function.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Set

from .. import Marker
from . import timeline


def patch(module: Any, marker: Marker) -> None:
    """module: horovod.tensorflow, whose optimizers and tapes all make their reductions by one function."""
    timeline.report(marker)
    make = module._make_allreduce_grads_fn
    reported: Set[int] = set()  # numbers of gradients

    def make_allreduce_grads(*args: Any, **kwargs: Any) -> Any:
        reduce = make(*args, **kwargs)

        def allreduce_grads(grads: Any, *more: Any, **named: Any) -> Any:
            try:
                _report(marker, grads, reported)
            except Exception:
                marker.failed("horovod_tensorflow")
            return reduce(grads, *more, **named)

        return allreduce_grads

    module._make_allreduce_grads_fn = make_allreduce_grads


def _report(marker: Marker, grads: Sequence[Any], reported: Set[int]) -> None:
    # Without a graph this is called in every step, for the same variables again and again.
    if len(grads) in reported:
        return
    reported.add(len(grads))
    sizes = [_size(grad) for grad in grads if grad is not None]
    if sizes:
        marker.fact("gradient.tensors", len(sizes))
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            marker.fact("gradient.bytes", sum(known))


def _size(grad: Any) -> Optional[int]:
    """Bytes of a dense gradient of known shape; sparse ones differ from step to step."""
    if hasattr(grad, "indices"):
        return None
    elements = grad.shape.num_elements()
    return None if elements is None else int(elements * grad.dtype.size)
