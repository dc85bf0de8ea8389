"""Evaluations and checkpoints of TensorFlow and Keras: calls between two steps.

If one call is inside another, the outermost counts. Under a coordinator the workers' next round begins after
it.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Callable, List

from .. import Marker
from .steps import steps

SAVES = {
    "Checkpoint": ("save", "write"),
    "CheckpointV1": ("save", "write"),
    "CheckpointManager": ("save",),
    "Model": ("save", "save_weights"),  # of Keras
}
EVALUATES = ("evaluate", "predict", "test_on_batch", "predict_on_batch")
at_coordinator: List[Callable[[], None]] = []  # to be called after each, by a chief

_now = time.monotonic_ns


def patch(module: Any, marker: Marker) -> None:
    """module: one that defines a class of SAVES, or tensorflow.python.saved_model.save."""
    for name, methods in SAVES.items():
        owner = vars(module).get(name)
        # What a module only imports is another module's to patch.
        if owner is not None and getattr(owner, "__module__", "") == module.__name__:
            for method in methods:
                mark_between(owner, method, "checkpoint", marker)
    if module.__name__.endswith("saved_model.save"):
        mark_between(module, "save", "checkpoint", marker)


def mark_between(owner: Any, name: str, kind: str, marker: Marker) -> None:
    """Let what runs in this function be `kind`, and no part of a step."""
    function = vars(owner).get(name)
    if function is None or hasattr(function, "_roofline_between"):
        return
    main = threading.main_thread()

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if steps.away or threading.current_thread() is not main:
            return function(*args, **kwargs)
        steps.settle()
        steps.away, begin = steps.away + 1, _now()
        try:
            return function(*args, **kwargs)
        finally:
            steps.away -= 1
            _over(kind, begin, marker)

    called._roofline_between = True  # type: ignore[attr-defined]
    setattr(owner, name, called)


def _over(kind: str, begin_ns: int, marker: Marker) -> None:
    try:
        end = _now()
        if steps.coordinated:
            marker.spans([("between." + kind, begin_ns, end, None, 1)])
            for call in at_coordinator:
                call()
        else:
            steps.between(kind, begin_ns, end)
    except Exception:
        marker.failed("tf_between")
