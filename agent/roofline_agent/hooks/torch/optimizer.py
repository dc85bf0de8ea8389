"""PyTorch: every optimizer calls the global step hooks; the outermost call is an update, which ends a step of
the training, or a part of one where several optimizers take turns (turns.py).

Optimizers that step inside a backward, one for each parameter, are one update together, when the backward is
over. An update that is captured in a CUDA graph is none. Horovod's optimizer fires these hooks twice a step,
so once there is one its own hook says when a step is over; both go on with the same count. Before it is made
`broadcast_optimizer_state` steps a plain one, to have a state to send; no backward was before that step, nor
is before one by which torch.distributed.checkpoint makes a state to load into.
"""

from __future__ import annotations

import atexit
import functools
import sys
import threading
import time
from typing import Any, Tuple

from .. import Marker
from .calm import UPDATED
from .phases import LEAVES, OPTIMIZES
from .recorder import Recorder, recorder
from .threads import SURE

LEFT_OUT = "steps.left_out"  # fact: updates by threads next to the one that trains, which are in no step
MOST_PARTS = 4  # updates by one optimizer inside that of another

_now, _thread = time.monotonic_ns, threading.get_ident


def patch(module: Any, marker: Marker) -> None:
    """module: torch.optim.optimizer."""
    record = recorder(marker)
    updates = Updates(record)
    record.updates = updates
    module.register_optimizer_step_pre_hook(updates.begin)
    module.register_optimizer_step_post_hook(updates.end)
    atexit.register(updates.finish)
    _notice_new(module.Optimizer, "__init__", record)
    if hasattr(module.Optimizer, "__setstate__"):  # of those that are copied or unpickled
        _notice_new(module.Optimizer, "__setstate__", record)


def _notice_new(owner: Any, name: str, record: Recorder) -> None:
    make = getattr(owner, name)

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        try:
            if not record.turns.knows(self):  # as one that loads its state
                record.optimizer_made(self)
        except Exception:
            record.failed("torch_optimizer")

    setattr(owner, name, made)


class Updates:
    """Outermost updates of the training thread. begin, end: the hooks of all optimizers."""

    __slots__ = ("_again", "_inside", "_other", "_parts", "_record", "_wrapped", "begin", "end")

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._other = record.training_thread.other
        self._inside: Any = []
        self._parts: Any = []  # updates inside the one that goes on
        self._again: Any = []  # those that had begun when one of them began again
        self._wrapped = False  # it is sure to end
        self.begin, self.end = _calm_hooks(record, self)

    def begin_in_full(self, optimizer: Any) -> None:
        """An update begins that is not that of a calm step."""
        try:
            record, key = self._record, id(optimizer)
            now = _now()
            if self._again and not self._inside:
                self._again = []
            if record.calm is not None:
                record.disturb()
            if record.by_hand is not None:
                record.leave_to_optimizers()
            thread = _thread()
            if thread == self._other.thread or (not record.in_backward and thread != record.thread):
                self._other.updating(thread, now)
                return
            if record.calm is None:
                self._take_over()
            if record.in_backward and record.is_in_backward(sys._getframe(1)):
                record.updated_in_backward = True
                return
            if self._inside and not record.by_horovod:
                self._check_inside(optimizer)
            if not self._inside:
                self._wrapped = False
                if not record.by_horovod:
                    record.updating(key)
            self._inside.append(key)
            record.event(OPTIMIZES)
            record.at(now)
            if record.sampled:
                record.spent += _now() - now
        except Exception:
            record.failed("torch_optimizer")

    def end_in_full(self, optimizer: Any) -> None:
        """An update is over that was not that of a calm step to its end."""
        try:
            thread = self._other.thread
            if thread and _thread() == thread:
                self._end_in_other(optimizer, _now())
            else:
                self._end(optimizer)
        except Exception:
            self._record.failed("torch_optimizer")

    def _end_in_other(self, optimizer: Any, now: int) -> None:
        record, key = self._record, id(optimizer)
        if not self._other.ends_update():
            return
        training = record.training_thread
        if not self._inside and not record.in_backward and training.has_moved(key):
            training.moves_to_other(key, now)
        else:
            self._other.updated(key, now)
            count = self._other.left_out
            if count > SURE and not count & (count - 1):  # seldom, for each costs a packet
                record.fact(LEFT_OUT, count)

    def finish(self) -> None:
        """The process exits."""
        try:
            if self._other.left_out:
                self._record.fact(LEFT_OUT, self._other.left_out)
        except Exception:
            self._record.failed("torch_optimizer")

    def _end(self, optimizer: Any) -> None:
        record, now = self._record, _now()
        sampled = record.sampled
        if record.in_backward or (self._again and self._ends_around(optimizer)):
            return
        if _thread() == record.thread and record.calm is None:
            self._take_over()
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
            record.costs.worked_ns += _now() - now

    def calm_border(self, now: int) -> None:
        """The update of a calm step was over at `now`, at whose border there is more to do."""
        record = self._record
        try:
            record.calm_steps.border(now)
            record.costs.worked_ns += _now() - now
        except Exception:
            record.failed("torch_optimizer")

    def _take_over(self) -> None:
        """Steps are calm no more; if an update of one went on, it is followed here from now on."""
        if self._record.inside:
            self._record.inside = False
            self._inside.append(self._record.stepping)

    def begin_wrapped(self, optimizer: Any) -> None:
        """begin() of an update for which either end() or failed() is sure to follow, whatever is in it."""
        self.begin(optimizer)
        self._wrapped = self._record.inside or self._inside[:1] == [id(optimizer)]

    def _check_inside(self, optimizer: Any) -> None:
        key = id(optimizer)
        # An update that raised has no end. Its optimizer steps again, or another one does, again and again.
        # One that calls the step() of its base class looks the same, but its end follows the inner one.
        if key in self._inside and not self._wrapped:
            self._again = [*self._again, *self._inside][-MOST_PARTS:]
            self.failed()
            return
        self._record.turns.part(optimizer)
        if self._wrapped:
            return
        self._parts.append(key)
        if self._parts.count(key) > MOST_PARTS:
            self.failed()

    def _ends_around(self, optimizer: Any) -> bool:
        """Whether a step() ends here that called that of its base, whose end was the border."""
        if self._inside or self._record.inside or self._again[-1] != id(optimizer):
            return False
        self._again.pop()
        return True

    def failed(self) -> None:
        """An update raised."""
        self._record.inside = False
        self._inside, self._parts, self._wrapped = [], [], False
        self._record.abandon()

    def skipped(self, optimizer: Any, now: int) -> None:
        """An optimizer was to make its update, which was left out: the step is over all the same."""
        record = self._record
        if record.calm is not None:
            record.disturb()
        self._take_over()
        if record.started and not self._inside and not record.by_horovod:
            record.updating(id(optimizer))
            record.updated(id(optimizer), now)
            record.skipped += 1
            record.fact("steps.skipped", record.skipped)


def _calm_hooks(record: Recorder, updates: Updates) -> Tuple[Any, Any]:
    """Before and behind each step of an optimizer."""
    clock, begin_in_full, end_in_full = _now, updates.begin_in_full, updates.end_in_full

    def begin(optimizer: Any, args: Any = (), kwargs: Any = None) -> None:
        record.updates_begun += 1
        log = record.calm
        # The only optimizer there is, so this is the thread that trains.
        if log is None or id(optimizer) != record.stepping or record.inside or record.in_backward:
            begin_in_full(optimizer)
            return
        record.inside = True
        now = clock()
        log((OPTIMIZES, now))
        if record.sampled:
            record.spent += clock() - now

    def end(optimizer: Any, args: Any = (), kwargs: Any = None) -> None:
        log = record.calm
        if log is None or not record.inside or id(optimizer) != record.stepping:
            end_in_full(optimizer)
            return
        now = clock()
        record.inside = False
        log((UPDATED, now))
        record.waits = 0
        record.calm_left = left = record.calm_left - 1
        if record.sampled:
            record.spent += clock() - now
        if left <= 0 or now >= record.calm_until_ns:
            updates.calm_border(now)

    return begin, end
