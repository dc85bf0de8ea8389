"""PyTorch: every optimizer calls the global step hooks; the outermost call is an update, which ends a step of
the training, or a part of one where several optimizers take turns (torch_turns.py).

Optimizers that step inside a backward, one for each parameter, are one update together, when the backward is
over. An update that is captured in a CUDA graph is none. Horovod's optimizer fires these hooks twice a step,
so once there is one its own hook says when a step is over; both go on with the same count. Before it is made
`broadcast_optimizer_state` steps a plain one, to have a state to send: no backward was before that step.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from typing import Any

from . import Marker
from .torch_calm import UPDATED
from .torch_phases import LEAVES, OPTIMIZES
from .torch_recorder import Recorder, recorder

MOST_PARTS = 4  # updates by one optimizer inside that of another

_now, _thread = time.monotonic_ns, threading.get_ident


def patch(module: Any, marker: Marker) -> None:
    """module: torch.optim.optimizer."""
    record = recorder(marker)
    updates = Updates(record)
    record.updates = updates
    module.register_optimizer_step_pre_hook(updates.begin)
    module.register_optimizer_step_post_hook(updates.end)
    init = module.Optimizer.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        try:
            record.optimizer_made(self)
        except Exception:
            record.failed("torch_optimizer")

    module.Optimizer.__init__ = __init__


class Updates:
    """Outermost updates of the training thread."""

    __slots__ = ("_inside", "_parts", "_record", "_wrapped", "count")

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._inside: Any = []
        self._parts: Any = []  # updates inside the one that goes on
        self._wrapped = False  # it is sure to end
        self.count = 0  # updates of any optimizer so far

    def begin(self, optimizer: Any, args: Any = (), kwargs: Any = None) -> None:
        try:
            record, key = self._record, id(optimizer)
            now = _now()
            self.count += 1
            log = record.calm
            if log is not None:
                is_plain = key == record.turns.alone and not self._inside and not record.in_backward
                if is_plain and _thread() == record.thread:
                    self._inside.append(key)
                    log((OPTIMIZES, now))
                    if record.sampled:
                        record.spent += _now() - now
                    return
                record.disturb()
            if record.by_hand is not None:
                record.leave_to_optimizers()
            if record.in_backward:
                record.updated_in_backward = True
                return
            if _thread() != record.thread:
                return
            if self._inside and not record.by_horovod:
                self._check_inside(optimizer)
            if not self._inside and not record.by_horovod:
                record.updating(key)
            self._inside.append(key)
            record.event(OPTIMIZES)
            record.at(now)
            if record.sampled:
                record.spent += _now() - now
        except Exception:
            record.failed("torch_optimizer")

    def end(self, optimizer: Any, args: Any = (), kwargs: Any = None) -> None:
        try:
            record, now = self._record, _now()
            sampled = record.sampled
            if record.in_backward:
                return
            if record.calm is not None and self._inside and _thread() == record.thread:
                self._calm_end(record, now)
                return
            if self._inside and _thread() == record.thread:
                self._inside.pop()
                if record.account.on:
                    now = record.account.read(now)
                record.event(LEAVES)
                record.at(now)
                if self._inside and not record.by_horovod:
                    return
                if self._parts or self._wrapped:
                    self._wrapped, self._parts = False, []
            if record.capturing is not None:
                record.captured()
            elif record.by_horovod or (not record.started and "horovod.torch" in sys.modules):
                record.flush()
            else:
                record.updated(id(optimizer), now)
            if sampled:
                record.spent += _now() - now
            elif record.sampled:  # from here on
                record.worked_ns += _now() - now
        except Exception:
            record.failed("torch_optimizer")

    def _calm_end(self, record: Recorder, now: int) -> None:
        self._inside.pop()
        self._wrapped = False
        if record.calm is not None:
            record.calm((UPDATED, now))
        record.calm_left -= 1
        record.waits = 0
        if record.sampled:
            record.spent += _now() - now
        if record.calm_left <= 0 or now >= record.calm_until_ns:
            record.calm_is_over(now)
            record.worked_ns += _now() - now

    def begin_wrapped(self, optimizer: Any) -> None:
        """begin() of an update for which either end() or failed() is sure to follow, whatever is in it."""
        self.begin(optimizer)
        self._wrapped = self._inside[:1] == [id(optimizer)]

    def _check_inside(self, optimizer: Any) -> None:
        self._record.turns.part(optimizer)
        # An update that raised has no end. Its optimizer steps again, or another one does, again and again.
        if self._wrapped:
            return
        key = id(optimizer)
        self._parts.append(key)
        if key in self._inside or self._parts.count(key) > MOST_PARTS:
            self.failed()

    def failed(self) -> None:
        """An update raised."""
        self._inside, self._parts, self._wrapped = [], [], False
        self._record.abandon()

    def skipped(self, optimizer: Any, now: int) -> None:
        """An optimizer was to make its update, which was left out: the step is over all the same."""
        record = self._record
        if record.started and not self._inside and not record.by_horovod:
            record.updating(id(optimizer))
            record.updated(id(optimizer), now)
            record.skipped += 1
            record.fact("steps.skipped", record.skipped)
