"""PyTorch: every optimizer calls the global step hooks once per step.

With several optimizers the first one seen keeps the count. Horovod's optimizer fires these hooks twice a step
and once before training, so with Horovod loaded its own hook marks instead.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from . import Marker


def patch(module: Any, marker: Marker) -> None:
    """module: torch.optim.optimizer."""
    counter = _Counter(marker)
    module.register_optimizer_step_post_hook(counter)


class _Counter:
    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        self._first = None  # type: Any
        self._steps = 0

    def __call__(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            if "horovod.torch" in sys.modules:
                return
            if self._first is None or self._first() is None:
                self._first = weakref.ref(optimizer)
            if self._first() is optimizer:
                self._marker.border(self._steps)
                self._steps += 1
        except Exception:
            return
