"""PyTorch: every optimizer calls the global step hooks; a step of the training is one of the first optimizer.

With several optimizers the first one seen keeps the count. Horovod's optimizer fires these hooks twice a
step, so once there is one its own hook says when a step is over; both go on with the same count. Before it is
made `broadcast_optimizer_state` steps a plain one, to have a state to send: no backward was before that step.
"""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any

from . import Marker
from .torch_recorder import OPTIMIZER, Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.optim.optimizer."""
    steps = _Steps(recorder(marker))
    module.register_optimizer_step_pre_hook(steps.begin)
    module.register_optimizer_step_post_hook(steps.end)


class _Steps:
    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._first: Any = None
        self._inside: Any = []

    def begin(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            if self._first is None or self._first() is None:
                self._first = weakref.ref(optimizer)
            record = self._record
            if not record.here():
                return
            key = id(optimizer)
            if key in self._inside and not record.by_horovod:  # its last step raised
                self._inside = []
                record.abandon()
            self._inside.append(key)
            record.enter(OPTIMIZER, time.monotonic_ns())
        except Exception:
            return

    def end(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            record, now = self._record, time.monotonic_ns()
            if self._inside and record.here():
                self._inside.pop()
                record.leave(now)
            if record.by_horovod or (not record.started and "horovod.torch" in sys.modules):
                record.flush()
            elif self._first is not None and self._first() is optimizer:
                record.stepped(now)
        except Exception:
            return
