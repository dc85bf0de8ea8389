"""PyTorch: every optimizer calls the global step hooks; a step of the training is one of the first optimizer.

With several optimizers the first one seen keeps the count. Horovod's optimizer fires these hooks twice a
step, so once there is one its own hook says when a step is over; both go on with the same count. Before it is
made `broadcast_optimizer_state` steps a plain one, to have a state to send: no backward was before that step.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from typing import Any

from . import Marker
from .torch_phases import LEAVES, OPTIMIZES
from .torch_recorder import Recorder, recorder

_now, _thread = time.monotonic_ns, threading.get_ident


def patch(module: Any, marker: Marker) -> None:
    """module: torch.optim.optimizer."""
    steps = _OptimizerSteps(recorder(marker))
    module.register_optimizer_step_pre_hook(steps.begin)
    module.register_optimizer_step_post_hook(steps.end)


class _OptimizerSteps:
    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._first: Any = lambda: None  # the optimizer whose steps count, weakly
        self._inside: Any = []

    def begin(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            if self._first() is None:
                self._first = weakref.ref(optimizer)
            record = self._record
            if _thread() != record.thread:
                return
            if self._inside and id(optimizer) in self._inside and not record.by_horovod:
                self._inside = []  # its last step raised
                record.abandon()
            self._inside.append(id(optimizer))
            record.event(OPTIMIZES)
            record.at(_now())
        except Exception:
            return

    def end(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            record, now = self._record, _now()
            if self._inside and _thread() == record.thread:
                self._inside.pop()
                record.event(LEAVES)
                record.at(now)
            if record.by_horovod or (not record.started and "horovod.torch" in sys.modules):
                record.flush()
            elif self._first() is optimizer:
                record.stepped(now)
        except Exception:
            return
