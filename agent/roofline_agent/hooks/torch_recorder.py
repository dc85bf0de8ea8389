"""PyTorch: what a rank's training thread was at, step by step; fed by the other torch hooks.

Phases never overlap: what begins inside another one is cut out of it. Forward is known for sure only when its
backward begins, so until then it is kept aside. No torch in here, and no clock: whoever calls says when.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from . import Marker
from .torch_batches import Batches

Span = Tuple[str, int, int, Optional[int], int]

INPUT, FORWARD, BACKWARD = "phase.input", "phase.forward", "phase.backward"
COMMUNICATE, OPTIMIZER = "phase.communicate", "phase.optimizer"

MAX_SPANS = 200  # of one step
MOST_SPANS = 4096  # that are kept; a process may fetch and communicate without ever stepping
JOIN_NS = 50000  # collectives that follow each other so closely are told as one
SHORTEST_NS = 20000  # a first guess at waits too short to tell, when there are too many

_identity = threading.get_ident


class Recorder:
    """One process's steps. The first step begins with the first fetch, forward or backward that was seen."""

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        self.batches = Batches()
        self._asks: List[Callable[[int], None]] = []
        self.by_horovod = False  # Horovod's optimizer was made: it says when a step is over
        self._start_anew()
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        # A forked child that trains has steps of its own; one that loads data has none.
        self.thread = threading.main_thread().ident
        self.steps = 0
        self.waits = 0  # backwards to come that end with waiting for other ranks
        self.started = False
        self._first: Dict[str, int] = {}
        self._spans: List[Span] = []
        self._joined: Dict[str, Span] = {}
        self._stack: List[List[Any]] = []
        self._forward: Optional[int] = None
        # What is told if the forward turns out to be one, and if not.
        self._kept: Deque[Span] = deque(maxlen=MOST_SPANS)
        self._instead: Deque[Span] = deque(maxlen=MOST_SPANS)
        self.batches.clear()

    def here(self) -> bool:
        """Whether the caller is the thread that trains."""
        return _identity() == self.thread

    def enter(self, name: str, now: int) -> None:
        """The training thread begins `name`; leave() ends it. Not for forward."""
        stack = self._stack
        if name is BACKWARD:
            self._settle_forward(now)
        elif name is INPUT or (stack and name is OPTIMIZER):
            self._drop_forward()
        if self._forward is not None and name is COMMUNICATE:
            self._keep(now)
        elif stack:
            self._cut(stack[-1], now)
        stack.append([name, now])

    def leave(self, now: int) -> None:
        """What was entered last is over."""
        if not self._stack:  # abandoned by another thread, or begun before a fork
            return
        name, since = self._stack.pop()
        if now > since:
            self._append((name, since, now, None, 1))
        if name is OPTIMIZER:
            self._drop_forward()
        elif name is COMMUNICATE and self._forward is not None:
            self._forward = now
        if self._stack:
            self._stack[-1][1] = now

    def turn(self, name: str, other: str, now: int) -> None:
        """What was entered last, if it is `name`, has become `other`."""
        if self._stack and self._stack[-1][0] is name:
            top = self._stack[-1]
            self._cut(top, now)
            top[0], top[1] = other, now

    def forward(self, now: int) -> None:
        """A forward begins, if a backward follows; inside a backward it is a part of that (checkpoints)."""
        if self._stack and self._stack[-1][0] is not OPTIMIZER:
            return
        self._drop_forward()
        self._forward = now

    def _keep(self, now: int) -> None:
        # Inside an optimizer's step this was either its own work or the forward of a closure.
        if now > self._forward:  # type: ignore[operator]
            self._kept.append((FORWARD, self._forward, now, None, 1))  # type: ignore[arg-type]
        if self._stack and now > self._stack[-1][1]:
            self._instead.append((self._stack[-1][0], self._stack[-1][1], now, None, 1))

    def _cut(self, top: List[Any], now: int) -> None:
        if now > top[1]:
            self._append((top[0], top[1], now, None, 1))

    def _append(self, *spans: Span) -> None:
        self._spans.extend(spans)
        if len(self._spans) > MOST_SPANS:
            self.flush()

    def _settle_forward(self, now: int) -> None:
        if self._forward is None:
            return
        self._append(*self._kept)
        if now > self._forward:
            self._append((FORWARD, self._forward, now, None, 1))
        if self._stack:  # a closure of the optimizer
            self._stack[-1][1] = now
        self._forward = None
        self._kept.clear()
        self._instead.clear()

    def _drop_forward(self) -> None:
        self._forward = None
        if self._kept or self._instead:
            self._append(*self._instead)
            self._kept.clear()
            self._instead.clear()

    def forget(self, name: str, since: int) -> None:
        """What was told as `name` since then was no part of training."""
        self._spans = [span for span in self._spans if span[0] is not name or span[1] < since]
        self._drop_forward()

    def abandon(self) -> None:
        """What was entered was left by an exception."""
        self._stack = []

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
            self._append(last)
        self._joined[name] = (name, begin, end, size, count)

    def fact(self, name: str, value: object) -> None:
        self._marker.fact(name, value)

    def at_border(self, ask: Callable[[int], None]) -> None:
        """Let ask(now) say more at every border: what an engine tells only afterwards."""
        self._asks.append(ask)

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
        self._spans = [span for span in self._spans if span[2] > begin]
        self._joined = {name: span for name, span in self._joined.items() if span[2] > begin}

    def stepped(self, now: int) -> None:
        """An optimizer step is over: the border between two steps."""
        for ask in self._asks:
            _answer(ask, now)
        _answer(self.flush)
        self._marker.border(self.steps, _answer(self.batches.take), now)
        self.steps += 1
        self.waits = 0

    def flush(self) -> None:
        """Give the spans of the step that is over to its border."""
        spans, self._spans = self._spans, []
        if self._joined:
            spans.extend(self._joined.values())
            self._joined = {}
        self._marker.spans(spans if len(spans) <= MAX_SPANS else thinned(spans))


def _answer(ask: Callable[..., Any], *args: Any) -> Any:
    # Whatever cannot be said of a step: the border is told, or two steps would become one.
    try:
        return ask(*args)
    except Exception:
        return None


def thinned(spans: List[Span], limit: int = MAX_SPANS) -> List[Span]:
    """At most `limit` spans, as long as leaving out the shortest waits inside other phases does it.

    A phase then goes on over a wait that was left out: the sum over all phases stays what it was.
    """
    shortest = SHORTEST_NS
    while len(spans) > limit and shortest < 1000 * SHORTEST_NS:
        spans = _without_waits(spans, shortest)
        shortest *= 4
    return spans


def _without_waits(spans: List[Span], shortest: int) -> List[Span]:
    phases = sorted((s for s in spans if s[0].startswith("phase.")), key=lambda span: span[1])
    joined: List[Span] = []
    for span in phases:
        name, begin, end, size, count = span
        if len(joined) > 1:
            before, wait = joined[-2], joined[-1]
            if (
                before[0] == name
                and (wait[0], wait[1], wait[2]) == (COMMUNICATE, before[2], begin)
                and wait[2] - wait[1] < shortest
            ):
                joined[-2:] = [(name, before[1], end, size, count)]
                continue
        joined.append(span)
    return joined + [s for s in spans if not s[0].startswith("phase.")]


_of: Any = weakref.WeakKeyDictionary()


def recorder(marker: Marker) -> Recorder:
    """The one recorder that all torch hooks of a process share."""
    found = _of.get(marker)
    if found is None:
        found = _of[marker] = Recorder(marker)
    return found  # type: ignore[no-any-return]
