"""PyTorch: the phases a training thread went through, from the events of when it began and ended each.

Pure logic. Phases never overlap: what begins inside another one is cut out of it. A forward is certain only
when its backward begins, so until then it is kept aside. The spans of a step follow from the order of its
events alone, as long as time passes between them; so steps of the same order share a `plan`.
"""

from __future__ import annotations

from collections import deque
from typing import Deque, List, NamedTuple, Optional, Sequence, Tuple

Span = Tuple[str, int, int, Optional[int], int]

INPUT, FORWARD, BACKWARD = "phase.input", "phase.forward", "phase.backward"
COMMUNICATE, OPTIMIZER = "phase.communicate", "phase.optimizer"

# Events, each a byte of a step's order. Up to COMMUNICATES: that phase begins. FETCHED: the input is over,
# and a forward may begin. WORKS: something of a step begins of which no phase is known.
LEAVES, INPUTS, BACKWARDS, OPTIMIZES, COMMUNICATES, FORWARDS, GRADIENTS_READY, FETCHED, WORKS = range(9)
PHASES = {INPUT: INPUTS, BACKWARD: BACKWARDS, OPTIMIZER: OPTIMIZES, COMMUNICATE: COMMUNICATES}
_NAMES = ("", INPUT, BACKWARD, OPTIMIZER, COMMUNICATE)
MOST_KEPT = 4096
MAX_SPANS = 200  # of one step
SHORTEST_NS = 20000  # waits this short are left out first, when there are too many spans


class _OpenPhase:
    """A phase that was entered, and since when it has no span yet."""

    __slots__ = ("name", "since")

    def __init__(self, name: str, since: int) -> None:
        self.name = name
        self.since = since


class Phases:
    """Events in, spans out: `spans` holds those that are settled, until somebody takes them."""

    def __init__(self) -> None:
        self.spans: List[Span] = []
        self._stack: List[_OpenPhase] = []
        self._forward: Optional[int] = None
        # The spans if the forward turns out to be one, and if not.
        self._kept: Deque[Span] = deque(maxlen=MOST_KEPT)
        self._instead: Deque[Span] = deque(maxlen=MOST_KEPT)

    def clean(self) -> bool:
        """Whether nothing is open or settled: what follows does not depend on what was before."""
        return not (self.spans or self._stack or self._kept or self._instead) and self._forward is None

    def process(self, events: Sequence[int], times: Sequence[int]) -> None:
        """Events, in order."""
        for event, now in zip(events, times):  # noqa: B905 - Python 3.8
            if event == LEAVES:
                self._leave(now)
            elif event == FORWARDS:
                self._begin_forward(now)
            elif event == FETCHED:
                self._leave(now)
                self._begin_forward(now)
            elif event == GRADIENTS_READY:
                # The rest of this backward is waiting for other ranks.
                if self._stack and self._stack[-1].name is BACKWARD:
                    top = self._stack[-1]
                    self._cut(top, now)
                    top.name, top.since = COMMUNICATE, now
            elif event != WORKS:
                self._enter(_NAMES[event], now)

    def _enter(self, name: str, now: int) -> None:
        stack = self._stack
        if name is BACKWARD:
            if stack and stack[-1].name is not OPTIMIZER:
                stack.clear()  # an exception has left them: a backward is inside nothing but an update
            self._settle_forward(now)
        elif name is INPUT or (stack and name is OPTIMIZER):
            self.drop_forward()
        if self._forward is not None and name is COMMUNICATE:
            # Inside an optimizer's step this was either its own work or the forward of a closure.
            if now > self._forward:
                self._kept.append((FORWARD, self._forward, now, None, 1))
            if stack and now > stack[-1].since:
                self._instead.append((stack[-1].name, stack[-1].since, now, None, 1))
        elif stack:
            self._cut(stack[-1], now)
        stack.append(_OpenPhase(name, now))

    def _leave(self, now: int) -> None:
        if not self._stack:  # abandoned, or begun before a fork
            return
        top = self._stack.pop()
        self._cut(top, now)
        if top.name is OPTIMIZER:
            self.drop_forward()
        elif top.name is COMMUNICATE and self._forward is not None:
            self._forward = now
        if self._stack:
            self._stack[-1].since = now

    def _begin_forward(self, now: int) -> None:
        if self._stack and self._stack[-1].name is not OPTIMIZER:
            return
        self.drop_forward()
        self._forward = now

    def _cut(self, top: _OpenPhase, now: int) -> None:
        if now > top.since:
            self.spans.append((top.name, top.since, now, None, 1))

    def _settle_forward(self, now: int) -> None:
        if self._forward is None:
            return
        self.spans.extend(self._kept)
        if now > self._forward:
            self.spans.append((FORWARD, self._forward, now, None, 1))
        if self._stack:  # a closure of the optimizer
            self._stack[-1].since = now
        self._forward = None
        self._kept.clear()
        self._instead.clear()

    def drop_forward(self) -> bool:
        """The forward that has begun was none: no backward follows. Whether one had begun."""
        begun, self._forward = self._forward is not None, None
        if self._kept or self._instead:
            self.spans.extend(self._instead)
            self._kept.clear()
            self._instead.clear()
        return begun

    def abandon(self) -> None:
        """An exception has left the phases that are open."""
        self._stack = []


class SpanPlan(NamedTuple):
    """The spans of all steps of one order: their names, and at which of its events each begins and ends."""

    names: Tuple[str, ...]
    places: Tuple[int, ...]  # begin, end, begin, end, ...


def plan(events: Sequence[int]) -> Optional[SpanPlan]:
    """The spans of a step that begins with nothing open; None if something is open at its end."""
    phases = Phases()
    phases.process(events, range(len(events)))
    spans, phases.spans = phases.spans, []
    if not phases.clean():
        return None
    places = [place for span in spans for place in span[1:3]]
    return SpanPlan(tuple(span[0] for span in spans), tuple(places))


def thinned(spans: List[Span]) -> List[Span]:
    """At most MAX_SPANS spans, as long as leaving out the shortest waits inside other phases does it.

    A phase then goes on over a wait that was left out: the sum over all phases stays what it was.
    """
    shortest = SHORTEST_NS
    while len(spans) > MAX_SPANS and shortest < 1000 * SHORTEST_NS:
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
