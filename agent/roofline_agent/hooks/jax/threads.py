"""JAX: calls of several threads. All are followed until it is known which of them trains, then only that one.
For the others the only question is whether one of them trains now."""

from __future__ import annotations

import threading
from typing import Dict, List, Optional

from .called import CalledFunction, JaxCall
from .leader import MORE, MOST_EARLY, PATIENCE, Election
from .steps import JaxSteps


class SharedSteps:
    """Steps for several threads."""

    def __init__(self, steps: JaxSteps) -> None:
        self._steps, self._lock = steps, threading.RLock()

    def begins(self, now: int) -> None:
        with self._lock:
            self._steps.begins(now)

    def called(self, call: JaxCall, now: int) -> None:
        with self._lock:
            self._steps.called(call, now)

    def waits(self) -> bool:
        with self._lock:
            return self._steps.waits()

    def read(self, now: int) -> None:
        with self._lock:
            self._steps.read(now)


class OtherThread:
    """One that calls compiled functions while another trains. It trains now if its calls are clearly more
    work than the steps, if they are what the steps are of, or if they are as much work and the thread that
    trained calls nothing meanwhile."""

    def __init__(self) -> None:
        self.calls: List[JaxCall] = []  # since the other's last; their results are the training's to free
        self._behind_ns = 0  # when that began
        self._counts: Dict[CalledFunction, int] = {}  # of these, by function
        self._flops = 0
        self.leads: Optional[CalledFunction] = None  # what the steps are of from now on, if that is known
        self._heavier = 0  # calls that are clearly more work than a step
        self._steps, self._own = -1, 0  # steps of the leading thread when this one had made `_own` calls

    def trains(self, call: JaxCall, behind_ns: int, election: Election, thread: int) -> bool:
        """A call has returned. thread: that trained, whose last call began at behind_ns; negative: that one
        is about to."""
        self._add(call, behind_ns)
        function = call.program.function
        if not function.feeds_back:
            return False
        self._counts[function] = self._counts.get(function, 0) + 1
        if thread < 0:
            return self._outlasts(-thread)
        if function is election.leader:
            return self._makes_steps(election.steps_led())
        flops = call.program.flops
        if self._does_more(flops or 0, election):
            self.leads = function
            return True
        return self._replaces(function, flops is None, election, thread)

    def _add(self, call: JaxCall, behind_ns: int) -> None:
        if behind_ns != self._behind_ns:
            self._behind_ns, self.calls, self._counts, self._flops = behind_ns, [], {}, 0
        if len(self.calls) >= MOST_EARLY:
            del self.calls[: MOST_EARLY // 2]
        self.calls.append(call)
        self._flops += call.program.flops or 0

    def _makes_steps(self, steps_led: int) -> bool:
        if steps_led != self._steps:
            self._steps, self._own = steps_led, 0
        self._own += 1
        return self._own >= PATIENCE

    def _does_more(self, flops: int, election: Election) -> bool:
        step = election.step_flops
        self._heavier += bool(flops and flops >= MORE * step)
        return self._heavier >= PATIENCE and self._heavier * flops >= step * election.steps_led()

    def _replaces(self, function: CalledFunction, unknown: bool, election: Election, thread: int) -> bool:
        """Whether it does what the other thread does no more."""
        own = self._counts[function]
        if own < PATIENCE:
            return False
        if unknown or election.leader is None or not self._flops < own * election.step_flops:
            return True
        # What does less may run ahead of a training that is busy with something else.
        return self._outlasts(thread)

    def _outlasts(self, thread: int) -> bool:
        long = len(self.calls) >= MOST_EARLY // 2
        return long or all(one.ident != thread for one in threading.enumerate())
