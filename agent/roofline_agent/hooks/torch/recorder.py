"""PyTorch: notes what a rank's training thread does, and decides where steps end; called by the other torch
hooks. What waits to be sent is in borders.py, what is sent of a step is made in steps.py.

This imports no torch and reads no clock: the caller passes the time.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Set

from .. import Marker
from .batch_sizes import BatchSizes
from .batches import Batches
from .between_steps import EVALUATION
from .borders import Borders
from .by_hand import SEEN_BY, ByHand
from .calm import CalmSteps
from .cost import HookCosts
from .phases import BACKWARDS, COMMUNICATE, FETCHED, FORWARDS, GRADIENTS_READY, LEAVES, PHASES
from .steps import TorchSteps
from .training_thread import TrainingThread
from .turns import Turns

MOST_EVENTS = 2048  # that are kept; a process may fetch and communicate without ever stepping

_identity = threading.get_ident


class _Calm:
    """What hooks of a calm step read and write, together in two lines of the caches."""

    __slots__ = (
        *("calm", "calm_left", "calm_until_ns", "in_backward", "inside", "iterator", "queue", "sampled"),
        *("spent", "stepping", "thread", "updates_begun", "waiting", "waits"),
    )


class Recorder(_Calm):
    """One process's steps. The first step begins with the first fetch, forward or backward."""

    __slots__ = (  # they lie together: between two steps the training pushes all of this out of the caches
        "__weakref__",
        *("account", "at", "batches", "between", "borders", "calm_steps", "event", "graphs", "sizes"),
        *("times", "turns", "updates"),
        *("backward_code", "by_hand", "by_horovod", "capturing", "gradient_came", "skipped", "started"),
        *("steps", "updated_in_backward"),
        *("_early", "_events", "_first", "_marker", "asked_at_border", "costs", "moves", "training_thread"),
    )

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        self.calm_steps = CalmSteps(self, marker)
        self.batches, self.turns = Batches(self.calm_steps.iterator_gone), Turns()
        self.steps = TorchSteps(marker)
        self.borders, self.training_thread = Borders(self, marker), TrainingThread(self)
        self.sizes = BatchSizes()
        self.account = marker.account  # of the training thread
        self.asked_at_border: List[Callable[[int], None]] = []
        self.by_horovod = False  # Horovod's optimizer was made: its hook ends the steps
        self.updates: Any = None  # of optimizer.py
        self.backward_code: Any = None  # of autograd.py: of the function in which a backward runs
        self.gradient_came: Any = None  # of autograd.py: to be called for one parameter in a backward
        self.graphs: Any = weakref.WeakSet()  # CUDA graphs that make an update
        # What happened since the last border (events of phases.py), and when: settle() when they are long.
        self._events, self.times = self.steps.events, self.steps.times
        self.event, self.at = self.steps.event, self.steps.at
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        self.borders.defer()
        atexit.register(self._try, self._at_exit)

    def _reset(self) -> None:
        # A forked child that trains has steps of its own; one that loads data has none.
        self.batches.clear()
        self.moves = False  # the training has moved from thread to thread
        self.thread = threading.main_thread().ident or 0  # that trains
        self.training_thread.becomes(self.thread)
        self.waits = 0  # backwards to come that end with waiting for other ranks
        self.started = False
        self._first: Dict[str, int] = {}
        self._early: Set[int] = set()  # optimizers that made an update before the first backward
        self.borders.reset()
        self.in_backward = self.updated_in_backward = False
        self.by_hand: Any = None  # follows updates without an optimizer (by_hand.py)
        self.capturing: Any = None  # a CUDA graph
        self.skipped = 0  # updates that were left out
        self.waiting = False  # the rest of the backward that goes on
        self.sampled = False  # this step measures what the hooks cost
        self.spent = 0  # by them in this step, ns
        self.costs = HookCosts()
        # While steps are calm (calm.py): takes what happens. For so many borders, and until then.
        self.calm: Optional[Callable[[Any], None]] = None
        self.calm_left = self.calm_until_ns = 0
        self.stepping = 0  # the optimizer (its id) whose updates end calm steps
        self.inside = False  # such an update goes on
        self.updates_begun = 0  # of any optimizer so far
        self.iterator = 0  # whose batches (its id) are those of calm steps, as was checked in this stretch
        self.queue: Any = None  # of its batches
        self.calm_steps.reset()
        self.steps.reset()
        self.between = self.steps.between
        self.turns.reset()

    def in_training_thread(self) -> bool:
        """Whether the caller runs in the thread that trains."""
        return _identity() == self.thread

    def is_in_backward(self, frame: Any) -> bool:
        """Whether the backward that was noted goes on, around this frame. A signal's handler may raise where
        its end is to be noted, and no step would end any more."""
        if _identity() == self.thread and self.backward_code is not None:
            while frame is not None and frame.f_code is not self.backward_code:
                frame = frame.f_back
            if frame is None:
                self.in_backward = self.updated_in_backward = False
                self.abandon()
        return self.in_backward

    def note(self, event: int, now: int) -> None:
        """Something happened to the training thread (an event of phases.py)."""
        if self.calm is not None:
            self.disturb()
        self.event(event)
        self.at(now)
        if len(self.times) > MOST_EVENTS:
            self.settle()

    def enter(self, name: str, now: int) -> None:
        """The training thread begins phase `name`; leave() ends it. Not for forward."""
        self.note(PHASES[name], now)

    def leave(self, now: int) -> None:
        """The phase that was entered last is over."""
        self.note(LEAVES, now)

    def gradients_ready(self, now: int) -> None:
        """The rest of the backward that is entered is waiting for other ranks."""
        self.waiting, now = True, self.waits_from(now)
        self.note(GRADIENTS_READY, now)

    def waited(self, now: int) -> int:
        """The backward that waited for other ranks is over."""
        self.waiting = False
        return int(self.account.ends(now)) if self.account.on else now

    def forward(self, now: int) -> None:
        """A forward begins, if a backward follows; inside a backward it is a part of that (checkpoints)."""
        self.note(FORWARDS, now)

    def disturb(self) -> None:
        """The training thread does what calm steps do not: it is noted in full until the next border."""
        if _identity() == self.thread:
            self.calm_steps.break_off()

    def in_head(self) -> bool:
        """Whether no training was seen since the border, so that this may lie between two steps."""
        if self.calm is not None:
            self.disturb()
        return self.started and self._events.find(BACKWARDS, self.borders.head()) < 0

    def forward_begun(self) -> bool:
        """Whether a batch was fetched since the border, or a forward begun: that of a wrapped model may turn
        gradients off for its own ends."""
        if self.calm is not None:
            self.disturb()
        since = self.borders.head()
        return self._events.find(FETCHED, since) >= 0 or self._events.find(FORWARDS, since) >= 0

    def note_between(self, kind: str, begin: int, end: int, certain: bool = True) -> None:
        """The training did something of this kind (of between_steps.py); it counts if no step goes on."""
        if self.in_head() and self.in_training_thread():
            self.between.add(kind, begin, end, certain)
            self._marker.note()

    def evaluated(self, now: int) -> None:
        """The evaluation that began when the model went into eval mode is over."""
        since = self.between.since
        if since is not None and self.in_head():
            self.batches.evaluated(since)
        self._note_evaluation(now)

    def _note_evaluation(self, now: int) -> None:
        since, self.between.since = self.between.since, None
        if since is not None:
            self.note_between(EVALUATION, since, now, certain=False)

    def trains_again(self) -> None:
        """A backward begins, and the model did not leave its eval mode: was there an evaluation?"""
        since, fetched = self.between.since, self.batches.newest_ns()
        if since is not None and fetched is not None and fetched > since:
            self._note_evaluation(fetched)
        self.between.since = None

    def settle(self) -> None:
        """Make spans of the events so far."""
        if self.calm is not None:
            self.calm_steps.catch_up()
        if self.borders.deferred:
            self.borders.hand_over()
        self.steps.settle()
        self.borders.settled()
        if self.steps.has_many_spans:
            self.flush()

    def forget(self, name: str, since: int) -> None:
        """What was recorded as `name` since then was no part of training."""
        self.settle()
        self.steps.forget(name, since)

    def abandon(self) -> None:
        """An exception has left the phases that are open."""
        self.settle()
        self.steps.phases.abandon()

    def waits_from(self, now: int) -> int:
        """Perhaps the training thread waits for other ranks from now on, or a moment later; blocked() or
        not_waited() must follow if it does nothing else meanwhile."""
        if self.account.on and self.in_training_thread():
            return int(self.account.begins("communicate", now))
        return now

    def not_waited(self) -> None:
        """The training thread has not waited for other ranks since waits_from()."""
        if self.account.on and self.in_training_thread():
            self.account.ends(0, False)

    def blocked(self, begin: int, end: int) -> None:
        """The training thread waited for other ranks, and did nothing else meanwhile."""
        if self.account.on:
            end = self.account.ends(end)
        self.enter(COMMUNICATE, begin)
        self.leave(end)

    def collective(self, name: str, begin: int, end: int, size: Optional[int], count: int = 1) -> None:
        """`count` collectives of one kind were asked for ("asked.KIND") or executed ("engine.KIND")."""
        if self.calm is not None:
            self.disturb()
        done = self.steps.joined.add(name, begin, end, size, count)
        if done is not None:
            self.steps.phases.spans.append(done)
            if self.steps.has_many_spans:
                self.flush()

    def fact(self, name: str, value: object) -> None:
        self._marker.fact(name, value)

    def computes_elsewhere(self) -> None:
        """No library that could be switched computes what is trained: it is on a GPU."""
        self._marker.leave_kernels()

    def failed(self, hook: str) -> None:
        """For an `except`: report the first error of a hook."""
        self._marker.failed(hook)

    def at_border(self, call: Callable[[int], None]) -> None:
        """Have call(now) record more at every border, what an engine reports only afterwards; while
        call.may_wait, if it has that, not at those of calm steps but behind the last of them."""
        self.asked_at_border.append(call)

    def seen(self, what: str, now: int) -> None:
        """Before the first step: `what` was seen for the first time."""
        if not self.started and what not in self._first:
            self._first[what] = now
            self._marker.note()

    def begun(self, now: int) -> None:
        """The first backward begins: this thread trains, and now it is known where step 0 began."""
        self.started = True
        if not self.steps.sent and not self.borders.deferred:
            self.borders.uncertain = []  # one update each has made state to be saved, or to be loaded into
        self.training_thread.becomes(_identity())
        self._marker.traces_with("torch")
        fetch = self.batches.first_ns()
        begin = fetch if fetch is not None else self._first.get("wrapped", self._first.get("module", now))
        self.steps.border_ns = begin
        if not self.turns.any_made():
            self.by_hand = ByHand(self)
        self._marker.border(-1, None, begin)
        self.settle()
        self.steps.begin_at(begin)

    def updating(self, key: int) -> None:
        """The update of an optimizer begins; key: of the optimizer."""
        if self.calm is not None:
            self.disturb()
        if self.borders.uncertain and (self.turns.again(key) or self._trains_without_backward(key)):
            self.borders.commit()

    def _trains_without_backward(self, key: int) -> bool:
        """Whether an optimizer begins its second update, before any backward and any border."""
        return not self.started and not self.steps.sent and key in self._early

    def updated(self, key: int, now: int) -> None:
        """The update of an optimizer is over: the border between two steps, unless another optimizer has its
        turn in the step. An optimizer's first one before any backward is no step, unless a second follows."""
        if not self.started and key not in self._early and not self.by_horovod:
            self._early.add(key)
            self.borders.hold(now)
        elif key == self.turns.alone or self.turns.ended(key):
            if self.borders.uncertain:
                self.borders.hold(now)  # for its examples
                self.borders.commit()
            else:
                self.stepped(now)
        else:
            self.borders.hold(now)

    def captured(self) -> None:
        """An update became part of the CUDA graph that is captured."""
        self.graphs.add(self.capturing)

    def optimizer_made(self, optimizer: Any) -> None:
        """An optimizer was made; perhaps it will step."""
        if self.calm is not None:
            self.disturb()
        self.turns.made(optimizer)
        if self.borders.uncertain and self.by_hand is not None:
            self.leave_to_optimizers()
        elif self.borders.uncertain:
            self.borders.commit()  # something new begins

    def leave_to_optimizers(self) -> None:
        """There is one, so what looked like updates by hand was none; those that were sent stay."""
        self.by_hand, self.borders.uncertain = None, []
        if self.steps.sent:
            self.fact(SEEN_BY, "optimizer")

    def _at_exit(self) -> None:
        if self.by_hand is not None:
            self.by_hand.finish()
        else:
            self.borders.commit()

    def stepped(self, now: int) -> None:
        """The border between two steps is here."""
        self.ask_at_border(now)
        self.borders.end_step(now)
        self.calm_steps.begin()

    def ask_at_border(self, now: int) -> None:
        """Have those that asked for it record more."""
        for call in self.asked_at_border:
            self._try(call, now)

    def report_cost(self, number: int, now: int) -> None:
        """Step `number`, which measured what the hooks cost, was sent."""
        cost = self.costs.add(number, self.spent, now)
        self.sampled, self.spent = False, 0
        if cost is not None:
            self._marker.fact("cost.hooks_ns", cost)

    def _try(self, call: Callable[..., Any], *args: Any) -> None:
        # Whatever fails, the border must be sent, or two steps would become one.
        try:
            call(*args)
        except Exception:
            self.failed("torch_recorder")

    def flush(self) -> None:
        """Hand the spans so far to the marker, which sends them with the next border."""
        if self.calm is not None:
            self.calm_steps.catch_up()
        if self.borders.deferred:
            self.borders.hand_over()
        self.steps.send_spans(self.steps.joined.take())


_of: Any = weakref.WeakKeyDictionary()


def recorder(marker: Marker) -> Recorder:
    """The one recorder that all torch hooks of a process share."""
    found = _of.get(marker)
    if found is None:
        found = _of[marker] = Recorder(marker)
    return found  # type: ignore[no-any-return]
