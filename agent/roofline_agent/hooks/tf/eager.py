"""Eager training loops: with an optimizer of Keras a step ends with its update, by hand with its gradient.

Whether an update follows shows only after the gradient, so the first gradients are held back while there is
an optimizer that may use them.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any, List, MutableMapping, Tuple
from weakref import WeakKeyDictionary

from .. import Marker
from .accumulation import Accumulation
from .calls import TrainingCall
from .graph_contents import contents_of, outermost, traced
from .steps import steps

HELD = 16  # gradients without an update, after which training updates by hand
CONTEXT, OPS = "tensorflow.python.eager.context", "tensorflow.python.framework.ops"
BACKWARD, OPTIMIZER = "phase.backward", "phase.optimizer"

_now = time.monotonic_ns


class EagerLoop:
    """Gradients and updates of this process."""

    def __init__(self) -> None:
        self._held: List[Tuple[Any, TrainingCall]] = []
        self._by_hand = False
        self._accumulations: MutableMapping[Any, Accumulation] = WeakKeyDictionary()

    def gradient(self, marker: Marker, variable: Any, call: TrainingCall, may_update: bool) -> None:
        """One was taken. may_update: there is an optimizer."""
        if self._by_hand or not may_update:
            steps.ended(marker, variable, call)
            return
        steps.settle()
        self._held.append((variable, call))
        steps.note(BACKWARD, call.begin_ns, call.end_ns)
        if len(self._held) > HELD:
            self._by_hand = True
            held, self._held = self._held, []
            steps.broken()
            for one in held:
                steps.ended(marker, *one)

    def updated(self, marker: Marker, optimizer: Any, begin_ns: int, end_ns: int) -> None:
        """An optimizer has updated."""
        held, self._held = self._held, []
        if self._by_hand and not held:
            return
        since = held[0][1].since_ns if held else None
        signature = ("eager", len(held))
        updates = self._updates(optimizer)
        call = TrainingCall(begin_ns, end_ns, None, OPTIMIZER, since, updates, signature)
        if steps.carries and not held:  # gradients that functions have taken
            call = call._replace(examples=0, only_updates=True)
        steps.ended(marker, optimizer, call)

    def _updates(self, optimizer: Any) -> int:
        """0: it has only added up the gradients."""
        if not getattr(optimizer, "gradient_accumulation_steps", None):
            return 1
        accumulation = self._accumulations.get(optimizer)
        if accumulation is None:
            accumulation = self._accumulations[optimizer] = Accumulation(optimizer)
        return accumulation.updates(1)


eager_loop = EagerLoop()


def patch_update(owner: Any, marker: Marker) -> None:
    """owner: the base class of optimizers."""
    name = "apply" if hasattr(owner, "apply") else "apply_gradients"
    apply = getattr(owner, name)

    # With the module of the original, AutoGraph leaves both alone in the same way.
    @functools.wraps(apply)
    def applied(self: Any, *args: Any, **kwargs: Any) -> Any:
        begin = _now()
        result = apply(self, *args, **kwargs)
        eager = _eager()
        if not eager:
            _traced_update(marker)
        elif not (steps.quiet or steps.away or steps.coordinated):
            end = _now()
            try:
                eager_loop.updated(marker, self, begin, end)
                steps.cost.over(marker, steps.number, end)
            except Exception:
                marker.failed("tf_eager")
                return result
        return result

    setattr(owner, name, applied)


def _traced_update(marker: Marker) -> None:
    """The function that is traced updates."""
    try:
        graph, _ = outermost(sys.modules[OPS].get_default_graph())
        contents_of(graph).updates = True
        traced.graph = graph
        traced.count += 1
    except Exception:
        marker.failed("tf_eager")


def _eager() -> bool:
    context = sys.modules.get(CONTEXT)
    return context is not None and bool(context.executing_eagerly())
