"""PyTorch: notes what a rank's training thread does, and decides where steps end; called by the other torch
hooks. What is sent of a step is made in steps.py.

This imports no torch and reads no clock: the caller passes the time.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from bisect import bisect_right
from typing import Any, Callable, Dict, List, Optional, Set

from .. import Marker
from ..marker import CHARGED_NS, DEFERRED_NS, SHORT_NS
from ..signals import raise_again
from .batches import Batches, BatchSizes
from .between_steps import EVALUATION, TRACE
from .borders import WaitingBorder, in_place_of
from .by_hand import ByHand
from .calm import MOST_DISTURBED, UPDATED, PlainSteps, work_out
from .cost import HookCosts, is_before_sampled, next_before_sampled
from .phases import BACKWARDS, COMMUNICATE, FETCHED, FORWARDS, GRADIENTS_READY, LEAVES, OPTIMIZER, PHASES
from .steps import TorchSteps
from .threads import OtherTraining
from .turns import Turns

MOST_EVENTS = 2048  # that are kept; a process may fetch and communicate without ever stepping
SEEN_BY = "steps.seen_by"  # the fact that says so where it isn't optimizers all the time

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
        *("account", "at", "batches", "between", "event", "graphs", "sizes", "times", "turns", "updates"),
        *("_calm_end", "_calm_stop", "_disturbed", "_log", "_short"),
        *("backward_code", "by_hand", "by_horovod", "capturing", "gradient_came", "skipped", "started"),
        *("steps", "updated_in_backward"),
        *("_at_border", "_defer_to", "_deferred", "_early", "_events", "_first"),
        *("_handed_ns", "_marker", "_may_defer", "_uncertain", "costs", "moves", "other"),
    )

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        self.batches, self.turns, self.steps = Batches(self._iterator_gone), Turns(), TorchSteps(marker)
        self.sizes = BatchSizes()
        self.account = marker.account  # of the training thread
        self._at_border: List[Callable[[int], None]] = []
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
        defers = getattr(marker, "defers", None)
        self._may_defer = defers is not None and defers(self.hand_over)
        atexit.register(self._try, self._at_exit)

    def _reset(self) -> None:
        # A forked child that trains has steps of its own; one that loads data has none.
        self.batches.clear()
        self.other = OtherTraining()
        self.moves = False  # the training has moved from thread to thread
        self._train_in(threading.main_thread().ident or 0)
        self.waits = 0  # backwards to come that end with waiting for other ranks
        self.started = False
        self._first: Dict[str, int] = {}
        self._early: Set[int] = set()  # optimizers that made an update before the first backward
        self._uncertain: List[WaitingBorder] = []  # perhaps these are borders
        self._deferred: List[WaitingBorder] = []  # borders that are sure, handed over together
        self._defer_to: Optional[int] = None  # borders of steps from this on are handed over at once
        self._handed_ns = 0  # end of the last step that was
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
        self._calm_stop = self._calm_end = 0  # at which of the next steps borders it and they are over
        self.stepping = 0  # the optimizer (its id) whose updates end calm steps
        self.inside = False  # such an update goes on
        self.updates_begun = 0  # of any optimizer so far
        self.iterator = 0  # whose batches (its id) are those of calm steps, as was checked in this stretch
        self.queue: Any = None  # of its batches
        self._log: List[Any] = []
        self._disturbed = 0  # calm stretches in a row that were broken off
        self._short = False  # the last step was
        self.steps.reset()
        self.between = self.steps.between
        self.turns.reset()

    def _train_in(self, thread: int) -> None:
        self.thread = thread
        self.other.forget()
        self.batches.trains(thread)

    def another_trains(self, now: int) -> bool:
        """A backward begins in another thread than the one that trains; whether that is now the one."""
        other, thread = self.other, _identity()
        other.begins(thread, now, self._progress())
        self.batches.other = thread
        if not other.replaces(self.thread):
            other.uses(self.batches.backward_of_other())
            if not self.inside:
                self.stepping = 0  # the next update is not noted as that of a calm step, whosever it is
            return False
        if self.calm is not None:
            self.catch_up()
        self.turns.stepped.clear()
        other.left_out -= len(other.steps)
        for key, now, batches in other.steps:
            self.updating(key)
            self.batches.add(batches)
            self.updated(key, now)
        if self.updates is not None:
            self.updates.failed()  # what that thread began and did not end
        self._train_in(thread)
        return True

    def moved(self, key: int, now: int) -> None:
        """The training has moved into another thread, which made an update of its optimizer `key`, and which
        trains now."""
        other = self.other
        if self.calm is not None:
            self.catch_up()
        self.batches.moved([one.batches for one in other.backwards])
        events = other.events(now)
        self._train_in(other.thread)
        self.moves = True
        self.updating(key)
        for event, at in events:
            self.note(event, at)
        self.updated(key, now)

    def back(self) -> None:
        """A training that moves begins a backward in the thread that trains: those that were in other threads
        meanwhile are of the same step."""
        other = self.other
        if other.backwards and other.is_alone(self._progress()):
            self.batches.moved([one.batches for one in other.backwards])
            for event, at in other.events():
                self.note(event, at)
        other.backwards = []

    def has_moved(self, key: int) -> bool:
        """Whether the other thread, which made an update of this optimizer, goes on with the training."""
        return not self.inside and self.turns.takes_part(key) and self.other.is_alone(self._progress())

    def _progress(self) -> Any:
        """What changes with all that the training thread does."""
        return self.steps.sent, len(self._deferred), len(self._uncertain), len(self.times), len(self._log)

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
            self._disturbed += 1
            self.catch_up()

    def catch_up(self) -> None:
        """The calm steps are over: work out what was noted of them."""
        self.calm = None
        log, self._log = self._log, []
        waits = self.waits  # of the step that goes on
        if log:
            self._try(work_out, self, log)
        self.waits = waits
        self.batches.let_go()

    def _iterator_gone(self, key: int) -> None:
        if key == self.iterator:  # another one may get its id
            self.iterator, self.queue = 0, None

    def plain_steps(self, steps: PlainSteps) -> bool:
        """Such steps followed on one another; False: not all is known that is needed to send them
        together."""
        if self._deferred:
            self.hand_over()
        before = steps.times[-2][-1] if len(steps.times) > 1 else self.steps.border_ns
        if self.sampled or self.batches.pending() or not self.steps.send_plain(steps):
            return False
        self._handed_ns = self.steps.border_ns
        self._short = self._handed_ns - before < SHORT_NS
        self._defer_to = None
        return True

    def calm_border(self, now: int) -> None:
        """The last update that was noted ended its step at `now`; there is more to do than to note that."""
        number = self._calm_stop - 1 - self.calm_left
        if self.account.on or number >= self.account.next:
            read = self.account.read(now) if self.account.on else now
            counts = self._marker.over(number, read)
            self._log[-1] = (UPDATED, read) if counts is None else (UPDATED, read, counts)
            self.iterator = 0  # the next fetch looks whether it is measured
        if number + 1 >= self._calm_end or now >= self.calm_until_ns:
            self._disturbed = 0
            self.catch_up()
            self._ask_at_border(now)
            self._calm_down()
        else:
            self._follow_calm(number + 1)

    def _follow_calm(self, number: int) -> None:
        """Of the calm steps the next is of this number; those behind it need nothing but to be noted until
        the end of one that the account asks for."""
        self._calm_stop = min(self._calm_end, self.account.next + 1)
        self.calm_left = self._calm_stop - number

    def _calm_down(self) -> None:
        """After a border: if what follows will be as what was before, the next steps are calm."""
        unusual = self._uncertain or self.between.stretches or self._disturbed >= MOST_DISTURBED
        # What another thread fetches meanwhile would come before what was only noted.
        if (
            unusual
            or self.batches.from_other_thread
            or not self._short
            or self.turns.alone is None
            or self.capturing is not None
        ):
            return
        if self._at_border and not all(getattr(call, "may_wait", False) for call in self._at_border):
            return
        if self._defer_to is None:
            self._defer_to = self._deferred_to()
        next_ = self.steps.sent + len(self._deferred)
        self._calm_end = next_ + 1 if self.sampled and self._may_defer else self._defer_to
        self._follow_calm(next_)
        if self.calm_left > 0:
            self.calm, self.calm_until_ns = self._log.append, self._handed_ns + DEFERRED_NS
            self.stepping, self.inside, self.iterator = self.turns.alone, False, 0
            self.account.beside_ns = CHARGED_NS
            self.batches.holds = True

    def in_head(self) -> bool:
        """Whether no training was seen since the border, so that this may lie between two steps."""
        if self.calm is not None:
            self.disturb()
        return self.started and self._events.find(BACKWARDS, self._head()) < 0

    def _head(self) -> int:
        """At which of the events the step that goes on begins."""
        border = self._uncertain[-1] if self._uncertain else self._deferred[-1] if self._deferred else None
        return 0 if border is None else border.events

    def forward_begun(self) -> bool:
        """Whether a batch was fetched since the border, or a forward begun: that of a wrapped model may turn
        gradients off for its own ends."""
        if self.calm is not None:
            self.disturb()
        since = self._head()
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
            self.catch_up()
        if self._deferred:
            self.hand_over()
        self.steps.settle()
        self._uncertain = [border._replace(events=0) for border in self._uncertain]
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
        self._at_border.append(call)

    def seen(self, what: str, now: int) -> None:
        """Before the first step: `what` was seen for the first time."""
        if not self.started and what not in self._first:
            self._first[what] = now
            self._marker.note()

    def begun(self, now: int) -> None:
        """The first backward begins: this thread trains, and now it is known where step 0 began."""
        self.started = True
        if not self.steps.sent and not self._deferred:
            self._uncertain = []  # one update each has made state to be saved, or to be loaded into
        self._train_in(_identity())
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
        if self._uncertain and (self.turns.again(key) or self._trains_without_backward(key)):
            self.commit()

    def _trains_without_backward(self, key: int) -> bool:
        """Whether an optimizer begins its second update, before any backward and any border."""
        return not self.started and not self.steps.sent and key in self._early

    def updated(self, key: int, now: int) -> None:
        """The update of an optimizer is over: the border between two steps, unless another optimizer has its
        turn in the step. An optimizer's first one before any backward is no step, unless a second follows."""
        if not self.started and key not in self._early and not self.by_horovod:
            self._early.add(key)
            self._hold(now)
        elif key == self.turns.alone or self.turns.ended(key):
            if self._uncertain:
                self._hold(now)  # for its examples
                self.commit()
            else:
                self.stepped(now)
        else:
            self._hold(now)

    def captured(self) -> None:
        """An update became part of the CUDA graph that is captured."""
        self.graphs.add(self.capturing)

    def optimizer_made(self, optimizer: Any) -> None:
        """An optimizer was made; perhaps it will step."""
        if self.calm is not None:
            self.disturb()
        self.turns.made(optimizer)
        if self._uncertain and self.by_hand is not None:
            self.leave_to_optimizers()
        elif self._uncertain:
            self.commit()  # something new begins

    def leave_to_optimizers(self) -> None:
        """There is one, so what looked like updates by hand was none; those that were sent stay."""
        self.by_hand, self._uncertain = None, []
        if self.steps.sent:
            self.fact(SEEN_BY, "optimizer")

    def updated_by_hand(self, begin: int, end: int) -> None:
        """What was done meanwhile was the work of an optimizer."""
        if not self.times or self.times[-1] <= begin:
            self.enter(OPTIMIZER, begin)
            self.leave(end)

    def border_by_hand(self, now: int, sure: bool) -> None:
        """An update was made without an optimizer. If that is not sure yet, the border is held."""
        examples = self.batches.take()
        self._uncertain.append(
            WaitingBorder(bisect_right(self.times, now), now, examples, self.batches.shapes)
        )
        if sure:
            if len(self._uncertain) > 1:
                self.fact(SEEN_BY, "backward")
            self.commit()

    def _hold(self, now: int) -> None:
        """A border may be here; of several the last one is."""
        if self._deferred:
            self.hand_over()
        border = WaitingBorder(len(self._events), now, self.batches.take(), self.batches.shapes)
        self._uncertain = [in_place_of(self._uncertain, border)]
        self._marker.note()

    def _at_exit(self) -> None:
        if self.by_hand is not None:
            self.by_hand.finish()
        else:
            self.commit()

    def commit(self) -> None:
        """The borders that are held are borders."""
        if self._deferred:
            self.hand_over()
        held, self._uncertain = self._uncertain, []
        if not held:
            return
        held[0] = held[0]._replace(spans=self.steps.joined.take())
        over, number = self._marker.over, self.steps.sent
        self._send([one._replace(counts=over(number + at, one.time_ns)) for at, one in enumerate(held)])
        self._over()

    def hand_over(self) -> None:
        """Send the steps whose borders were deferred."""
        if self.calm is not None:
            self.catch_up()
        deferred, self._deferred = self._deferred, []
        phases = self.steps.phases
        behind, phases.spans = phases.spans, []  # of the step that goes on
        self._send(deferred)
        phases.spans += behind
        if len(deferred) > 1:
            self._marker.flush()  # in one packet

    def _over(self) -> None:
        """A step is over, and another one begins."""
        self.waits = 0
        if self.turns.round:
            self.turns.over()

    def _send(self, borders: List[WaitingBorder]) -> None:
        """Send the steps that ended at these borders."""
        first = self.steps.sent
        self.steps.send_all(borders)
        stall = self._marker.take_stall()
        if stall is not None:
            self.between.add(TRACE, stall[0], stall[1], certain=True)
        for number, border in enumerate(borders, first):
            if self.sampled:
                self._report_cost(number, border.time_ns)
            elif is_before_sampled(number):
                self.sampled = True

    def stepped(self, now: int) -> None:
        """The border between two steps is here."""
        self._ask_at_border(now)
        self.end_step(now)
        self._calm_down()

    def _ask_at_border(self, now: int) -> None:
        for call in self._at_border:
            self._try(call, now)

    def end_step(self, now: int, noted: bool = False, counts: Any = None) -> None:
        """The border between two steps is here, or was at `now` and was only noted, with these counts."""
        try:
            examples, shapes = self.batches.take(), self.batches.shapes
        except Exception:
            raise_again()
            examples = shapes = None
        deferred, account = self._deferred, self.account
        number = self.steps.sent + len(deferred)
        if not noted and (account.on or number >= account.next):
            counts = self._marker.over(number, now)
        # Together short steps take a fraction of the time, as code and data for it lie in the caches.
        before = deferred[-1].time_ns if deferred else self.steps.border_ns
        self._short = now - before < SHORT_NS
        defers = self._short and now - self._handed_ns < DEFERRED_NS
        if defers and (self.between.stretches or self._uncertain):
            defers = False
        if defers:
            if self._defer_to is None:  # not known since the last one was handed over
                self._defer_to = self._deferred_to()
            defers = number < self._defer_to
        spans = self.steps.take_spans()
        deferred.append(WaitingBorder(len(self._events), now, examples, shapes, counts, spans))
        if not defers:
            self.hand_over()
            self._handed_ns, self._defer_to = now, None
        self._over()

    def _deferred_to(self) -> int:
        """The first step from this one on whose border is to be handed over at once."""
        if not self._may_defer or self.by_hand is not None or self.by_horovod:
            return -1
        sampled = self.steps.sent if self.sampled else next_before_sampled(self.steps.sent)
        return min(self._marker.deferred_to(), sampled)

    def _report_cost(self, number: int, now: int) -> None:
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
            self.catch_up()
        if self._deferred:
            self.hand_over()
        self.steps.send_spans(self.steps.joined.take())


_of: Any = weakref.WeakKeyDictionary()


def recorder(marker: Marker) -> Recorder:
    """The one recorder that all torch hooks of a process share."""
    found = _of.get(marker)
    if found is None:
        found = _of[marker] = Recorder(marker)
    return found  # type: ignore[no-any-return]
