"""PyTorch: records the phases of a rank's training thread, step by step; called by the other torch hooks.

Events are noted as they come, a byte and a time each, and are made into spans (torch_phases.py) at the border
of their step; a step whose order of events is known is sent by a prepared layout. It imports no torch and
reads no clock: the caller passes the time.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional

from . import Marker
from .torch_batches import Batches
from .torch_phases import (
    BACKWARD,
    COMMUNICATE,
    FORWARD,
    FORWARDS,
    GRADIENTS_READY,
    INPUT,
    LEAVES,
    MAX_SPANS,
    OPTIMIZER,
    PHASES,
    Phases,
    Span,
    plan,
    thinned,
)

__all__ = [
    "BACKWARD",
    "COMMUNICATE",
    "FORWARD",
    "INPUT",
    "MAX_SPANS",
    "OPTIMIZER",
    "Recorder",
    "recorder",
    "thinned",
]

MOST_SPANS = 4096  # that are kept; a process may fetch and communicate without ever stepping
MOST_EVENTS = 2048  # likewise
JOIN_NS = 50000  # collectives that follow each other so closely become one span
MOST_LAYOUTS, LONGEST = 128, 64  # orders of steps that are known, and events of one

_identity = threading.get_ident


class Recorder:
    """One process's steps. The first step begins with the first fetch, forward or backward."""

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        self.batches = Batches()
        self._at_border: List[Callable[[int], None]] = []
        self.by_horovod = False  # Horovod's optimizer was made: its hook ends the steps
        # What happened since the last border (events of torch_phases), and when. Only ever these two objects:
        # the hooks that run in every step append to both, the event first, and settle() when they are long.
        self._events, self.times = bytearray(), []  # type: bytearray, List[int]
        self.event, self.at = self._events.append, self.times.append
        self._layouts: Dict[bytes, Any] = {}
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        # A forked child that trains has steps of its own; one that loads data has none.
        self.thread = threading.main_thread().ident
        self.steps = 0
        self.waits = 0  # backwards to come that end with waiting for other ranks
        self.started = False
        self._first: Dict[str, int] = {}
        self._joined: Dict[str, Span] = {}
        self._phases = Phases()
        self._fresh = True  # nothing was open at the last border
        self._drop_events()
        self.batches.clear()

    def in_training_thread(self) -> bool:
        """Whether the caller runs in the thread that trains."""
        return _identity() == self.thread

    def note(self, event: int, now: int) -> None:
        """Something happened to the training thread (an event of torch_phases)."""
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
        self.note(GRADIENTS_READY, now)

    def forward(self, now: int) -> None:
        """A forward begins, if a backward follows; inside a backward it is a part of that (checkpoints)."""
        self.note(FORWARDS, now)

    def _drop_events(self) -> None:
        self._events.clear()
        self.times.clear()

    def settle(self) -> None:
        """Make spans of the events so far."""
        phases = self._phases
        if len(self._events) == len(self.times):
            phases.process(self._events, self.times)
        else:  # an exception of a signal's handler came between the two appends
            phases.abandon()
        self._drop_events()
        self._fresh = False
        if len(phases.spans) > MOST_SPANS:
            self.flush()

    def forget(self, name: str, since: int) -> None:
        """What was recorded as `name` since then was no part of training."""
        self.settle()
        phases = self._phases
        phases.spans = [span for span in phases.spans if span[0] is not name or span[1] < since]
        phases.drop_forward()

    def abandon(self) -> None:
        """An exception has left the phases that are open."""
        self.settle()
        self._phases.abandon()

    def blocked(self, begin: int, end: int) -> None:
        """The training thread waited for other ranks, and did nothing else meanwhile."""
        self.enter(COMMUNICATE, begin)
        self.leave(end)

    def collective(self, name: str, begin: int, end: int, size: Optional[int], count: int = 1) -> None:
        """`count` collectives of one kind were asked for ("asked.KIND") or executed ("engine.KIND")."""
        last = self._joined.get(name)
        if last is not None and begin - last[2] < JOIN_NS:
            both = None if size is None or last[3] is None else size + last[3]
            self._joined[name] = (name, last[1], max(end, last[2]), both, count + last[4])
            return
        if last is not None:
            self._phases.spans.append(last)
            if len(self._phases.spans) > MOST_SPANS:
                self.flush()
        self._joined[name] = (name, begin, end, size, count)

    def fact(self, name: str, value: object) -> None:
        self._marker.fact(name, value)

    def at_border(self, call: Callable[[int], None]) -> None:
        """Have call(now) record more at every border: what an engine reports only afterwards."""
        self._at_border.append(call)

    def seen(self, what: str, now: int) -> None:
        """Before the first step: `what` was seen for the first time."""
        if not self.started and what not in self._first:
            self._first[what] = now
            self._marker.note()

    def begun(self, now: int) -> None:
        """The first backward begins: this thread trains, and now it is known where step 0 began."""
        self.started = True
        self.thread = _identity()
        fetch = self.batches.first_ns()
        begin = fetch if fetch is not None else self._first.get("wrapped", self._first.get("module", now))
        self._marker.border(-1, None, begin)
        # What was there before is of no step.
        self.settle()
        phases = self._phases
        phases.spans = [span for span in phases.spans if span[2] > begin]
        self._joined = {name: span for name, span in self._joined.items() if span[2] > begin}

    def stepped(self, now: int) -> None:
        """An optimizer step is over: the border between two steps."""
        if self._at_border:
            for call in self._at_border:
                _try(call, now)
        try:
            examples = self.batches.take()
        except Exception:
            examples = None
        events, times = bytes(self._events), self.times
        layout = self._layouts.get(events)
        # Of a known order, with nothing in it but its phases?
        alike = layout and self._fresh and not (self._joined or self._phases.spans)
        times.append(now)
        if alike and self._marker.send_layout(layout, self.steps, examples, times):
            self._events.clear()
            times.clear()
        else:
            times.pop()
            learn = layout is None and self._fresh and len(events) <= LONGEST
            _try(self.flush)
            self._marker.border(self.steps, examples, now)
            self._fresh = self._phases.clean()
            if learn and self._fresh:
                _try(self._learn, events)
        self.steps += 1
        self.waits = 0

    def _learn(self, events: bytes) -> None:
        """The second step of one order makes its layout. None: seen once. False: it cannot have one."""
        if events not in self._layouts:
            if len(self._layouts) >= MOST_LAYOUTS:
                self._layouts.clear()
            self._layouts[events] = None
            return
        self._layouts[events] = False
        found = plan(events)
        if found is not None and found.names:
            places = (len(events), *found.places)  # the border's own time stands behind the events'
            self._layouts[events] = self._marker.layout(1, found.names, places) or False

    def flush(self) -> None:
        """Hand the spans of the step that is over to the marker, which sends them with its border."""
        if self.times:
            self.settle()
        spans, self._phases.spans = self._phases.spans, []
        if self._joined:
            spans.extend(self._joined.values())
            self._joined = {}
        self._marker.spans(spans if len(spans) <= MAX_SPANS else thinned(spans))


def _try(call: Callable[..., Any], *args: Any) -> None:
    # Whatever fails, the border must be sent, or two steps would become one.
    try:
        call(*args)
    except Exception:
        return


_of: Any = weakref.WeakKeyDictionary()


def recorder(marker: Marker) -> Recorder:
    """The one recorder that all torch hooks of a process share."""
    found = _of.get(marker)
    if found is None:
        found = _of[marker] = Recorder(marker)
    return found  # type: ignore[no-any-return]
