"""Traces of ranks that the server asks for: which wrapper is asked, and what becomes of each.

The server's thread asks, the daemon's loop does the rest: it sends the order to the rank's wrapper, and
follows the fact `trace.state` by which the wrapper reports how far it is (run/tracing.py).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ..hooks.tracing import MOST_STEPS
from ..records import Rank

# How the value of the fact begins; with the last three it is over.
ASKED, READING, RECORDED, FAILED, REFUSED = "asked:", "reading:", "recorded:", "not recorded:", "refused:"
ANSWER_S = 20.0  # until the wrapper confirms that it was asked
MOST_S = 900.0  # for all of a trace; the wrapper gives up before
MOST_OPEN = 64
GONE = "this rank has ended, or is not of this node"
UNWRAPPED = "it was not started by `roofline-agent run -- CMD`, or its wrapper holds several ranks"
SILENT = "its wrapper does not answer: it is of an older version, or stopped"
LEFT = "its wrapper has ended"


class TraceOutcome(NamedTuple):
    """How far a trace is, or how it ended: with what was recorded, or why nothing was."""

    text: str
    is_over: bool
    recorded: bool = False


class TraceOrder(NamedTuple):
    """The next `steps` steps of a process. answer: takes outcomes, at last one that is over; in any
    thread. step_us: how long a step usually lasts, 0: not known."""

    pid: int
    start_ns: int
    steps: int
    answer: Callable[[TraceOutcome], None]
    step_us: int = 0


class _Open(NamedTuple):
    order: TraceOrder
    until: float  # monotonic
    asked: bool  # the wrapper has confirmed the order


class TraceOrders:
    """The orders for traces of one node."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._new: deque[TraceOrder] = deque()
        self._open: dict[tuple[int, int], _Open] = {}

    def add(self, order: TraceOrder) -> None:
        """From another thread."""
        if not 1 <= order.steps <= MOST_STEPS:
            why = f"{order.steps} steps: 1 to {MOST_STEPS} can be traced"
        elif len(self._new) >= MOST_OPEN:
            why = "too many traces were asked for at once"
        else:
            self._new.append(order)
            return
        order.answer(TraceOutcome(why, True))

    @property
    def idle(self) -> bool:
        """Nothing is asked for, and nothing waited for."""
        return not self._new and not self._open

    def send(self, ask: Callable[[int, int, int, int], int | None]) -> None:
        """Have each new order sent. ask(pid, start_ns, steps, step_us): how many wrappers of the process were
        asked; None: there is no such rank."""
        while self._new:
            order = self._new.popleft()
            key = order.pid, order.start_ns
            if key in self._open:
                order.answer(TraceOutcome("another trace of this rank is not finished", True))
            elif (asked := ask(*key, order.steps, order.step_us)) is None:
                order.answer(TraceOutcome(GONE, True))
            elif not asked:
                order.answer(TraceOutcome(UNWRAPPED, True))
            else:
                self._open[key] = _Open(order, self._clock() + ANSWER_S, False)

    def reported(self, rank: Rank, state: str) -> None:
        """The wrapper of a rank reports a state."""
        key = rank.pid, rank.start_ns
        if (one := self._open.get(key)) is None:
            return
        is_over = state.startswith((RECORDED, FAILED, REFUSED))
        if is_over:
            del self._open[key]
        else:
            self._open[key] = one._replace(until=self._clock() + MOST_S, asked=True)
        one.order.answer(TraceOutcome(state, is_over, state.startswith(RECORDED)))

    def left(self, rank: Rank) -> None:
        """A wrapper of this rank has closed its connection."""
        if one := self._open.pop((rank.pid, rank.start_ns), None):
            one.order.answer(TraceOutcome(LEFT, True))

    def give_up_late(self) -> None:
        """End those that are waited for too long."""
        now = self._clock()
        for key, one in list(self._open.items()):
            if now > one.until:
                del self._open[key]
                why = f"nothing came of it within {MOST_S:.0f} s" if one.asked else SILENT
                one.order.answer(TraceOutcome(why, True))
