"""Steps of a JAX process, from the calls of its compiled functions.

JAX only queues a call. A call is known to have ended when its result is ready, which is looked up where the
training is in our hands anyway: as the next call begins, as a call returns that the runtime had held back,
and as the training reads a result. No thread waits and nothing is synchronised. Calls that have ended between
two such moments share the time between them in proportion to their FLOPs. Around steps that a profiler is to
record, or records, each call is waited for: their borders must be known when they occur.

A step is a call of the function that trains (leader.py).
"""

from __future__ import annotations

import weakref
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from .. import Marker
from ..signals import raise_again
from .called import CalledFunction, EndedCall, JaxCall, JaxProgram
from .leader import MOST_EARLY, Elected, Election, JaxStep, Outcome

MOST_QUEUED = 1024
MOST_WAITED = 256  # calls that are waited for while nothing trains
MOST_HELD = 1 << 17  # elements of a result that is kept until its call has ended: 1 MB of 8 bytes each
SEND_CALLS, SEND_NS = 256, 200_000_000


class _BetweenSteps(NamedTuple):
    """A stretch between two steps."""

    name: str
    begin_ns: int
    end_ns: int


class JaxSteps:
    """Calls in, borders of steps and executed kernels out."""

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        # Nsight Compute records what runs between two borders (profiler_range.py).
        self._has_ranges = getattr(marker, "_profiler", None) is not None
        self.reset()

    def reset(self) -> None:
        """As in a process in which nothing was called yet."""
        self.queue: List[JaxCall] = []  # not known to have ended
        self.election = Election()
        self._ready = 0  # of the queue's first calls, whose ends are known but not when they were
        self._ended_ns = 0
        self._number = -1
        self._border_ns = 0
        self._between: Optional[_BetweenSteps] = None  # since the last border
        self._calls: List[Tuple[int, int, int]] = []
        self._covered_ns: Optional[int] = None
        self._sent_ns = 0
        self._waited, self._waited_behind = 0, -1  # calls for a border, since this step
        self._traced = False  # a profiler ran when calls ended the last time

    def begins(self, now: int) -> None:
        """The training calls a compiled function."""
        if self.queue:
            self._settle(now)

    def called(self, call: JaxCall, now: int) -> None:
        """The call has returned; what it computes may not have begun."""
        queue = self.queue
        if queue:
            # The runtime lets only so many calls wait: this one was held back until another had ended.
            at = self._ready
            if at < len(queue) and _is_ready(queue[at]):
                self._count_ready()
                self._end(self._ready, now)
            elif len(queue) >= MOST_QUEUED:
                self._end(len(queue), now)
        queue.append(call)

    def waits(self) -> bool:
        """Whether the call that was queued last must end before the training goes on."""
        tracing = self._marker.tracing
        if tracing.at <= self._number + len(self.queue) + 1 or self._has_ranges:
            return True
        return bool(tracing.is_due) and self._awaits_border()

    def _awaits_border(self) -> bool:
        """A trace is asked for: whether to wait for the next border, at which it is looked up. The trace is
        refused, and nothing waited for, where none comes."""
        if self._waited_behind != self._number:
            self._waited, self._waited_behind = 0, self._number
        self._waited += 1
        leader, early = self.election.leader, self.election.early
        long = self._waited > (MOST_WAITED if leader is None else MOST_EARLY)
        # A training may begin late.
        if long and (leader is not None or len(early) >= MOST_EARLY // 2):
            self._waited = 0
            self._marker.tracing.refuse("no function of this process trains")
        return not long

    def read(self, now: int) -> None:
        """The training has read a result, and has waited for it if it was not ready."""
        if self.queue and not self._settle(now) and self._ready:
            self._end(self._ready, now)

    def _settle(self, now: int) -> bool:
        """End all queued calls if the last one has ended; else count those that have, and return False."""
        if _is_ready(self.queue[-1]):
            self._end(len(self.queue), now)
            return True
        self._count_ready()
        return False

    def move(self, calls: List[JaxCall], leads: Optional[CalledFunction] = None) -> None:
        """Another thread trains now, of which these calls were; they have ended, and all before them. leads:
        what it trains, if it is known that the leader trains no more."""
        queue = self.queue
        if queue:
            self._end(len(queue), max(self._ended_ns, queue[-1].dispatched_ns, calls[0].begin_ns))
        queue += calls
        if leads is not None:
            self._place(self.election.replace(leads, calls[0].begin_ns))

    def finish(self, now: int) -> None:
        """The process ends."""
        if self.queue:
            self._end(len(self.queue), now)
        self._place(self.election.finish())
        self._send_calls()

    def _count_ready(self) -> None:
        queue = self.queue
        while self._ready < len(queue) and _is_ready(queue[self._ready]):
            self._ready += 1

    def _end(self, count: int, now: int) -> None:
        """The first `count` calls of the queue have ended by now, the last of them at this moment."""
        calls = self.queue[:count]
        del self.queue[:count]
        self._ready = 0
        first = max(self._ended_ns, calls[0].dispatched_ns)
        weights = [call.program.flops or 1 for call in calls]
        whole, passed, begin = sum(weights), 0, first
        for call, weight in zip(calls, weights):  # noqa: B905 - Python 3.8
            passed += weight
            # Behind an older one nothing may be begun: what follows it has ended, or is at work already.
            self._marker.more = bool(self.queue) or call is not calls[-1]
            begin = max(begin, call.dispatched_ns)
            end = max(begin, first + (now - first) * passed // whole)
            self._add(EndedCall(call.program, call.begin_ns, begin, end))
            begin = end
        self._ended_ns = now
        if self._marker.tracing.records != self._traced:
            self._traced = not self._traced
            if self._traced:
                self._send_calls()
            # What the trace holds would count twice.
            self._calls, self._covered_ns = [], None
        elif not self._traced and (len(self._calls) >= SEND_CALLS or now - self._sent_ns > SEND_NS):
            self._send_calls()

    def _add(self, ended: EndedCall) -> None:
        program = ended.program
        if self._covered_ns is None:
            self._covered_ns = ended.called_ns
        if program.kernel is not None:
            self._calls.append((program.kernel, ended.begin_ns, ended.end_ns - ended.begin_ns))
        self._place(self.election.add(ended))

    def _place(self, outcomes: List[Outcome]) -> None:
        """It is known what some calls are."""
        more = self._marker.more
        for one in outcomes:
            if isinstance(one, JaxStep):
                self._marker.more = more or one.followed
                self._step(one.call)
            elif isinstance(one, Elected):
                self._marker.fact("steps.of", one.function.name)
                if one.since_ns is not None:
                    self._between = _BetweenSteps("between.other", self._border_ns, one.since_ns)
            else:
                begin = self._between.begin_ns if self._between else max(one.call.called_ns, self._border_ns)
                self._between = _BetweenSteps("between.evaluation", begin, one.call.end_ns)
        self._marker.more = more

    def _send_calls(self) -> None:
        calls, self._calls = self._calls, []
        self._sent_ns = self._ended_ns
        if self._covered_ns is not None and calls:
            self._marker.calls(calls, self._covered_ns, self._ended_ns)
            self._covered_ns = self._ended_ns

    def _step(self, ended: EndedCall) -> None:
        """A call of the leader is a step, which began where the one before it ended."""
        program, called, begin, end = ended
        marker = self._marker
        if self._number < 0:
            marker.traces_with("jax")
            marker.border(-1, None, called)
            self._border_ns = called
        self._number += 1
        counts = marker.over(self._number, end)
        if self._between is None and self._send_alike(program, max(begin, self._border_ns), end, counts):
            self._border_ns = end
            self._stand_still()
            return
        begin_ns: Optional[int] = None
        spans: List[Tuple[str, int, int, Optional[int], int]] = []
        if self._between is not None:
            between, self._between = self._between, None
            begin_ns = max(between.begin_ns, min(between.end_ns, called))
            spans.append((between.name, between.begin_ns, begin_ns, None, 1))
        elif counts is not None:
            spans += counts.spans()
        spans.append(("phase.call", max(begin, begin_ns or self._border_ns), end, None, 1))
        marker.spans(spans)
        marker.border(self._number, program.examples, end, program.like, begin_ns)
        self._border_ns = end
        self._stand_still()

    def _stand_still(self) -> None:
        """For a trace, behind the border that was handed over last."""
        stall = self._marker.take_stall()
        if stall is not None:
            self._between = _BetweenSteps("between.trace", *stall)

    def _send_alike(self, program: JaxProgram, begin: int, end: int, counts: Any) -> bool:
        """Send a step that follows on the one before by a layout, in a fraction of the time."""
        if program.layout is None:
            program.layout = self._marker.layout(1, ("phase.call",), (2, 0, 1), program.like) or False
        if not program.layout:
            return False
        if counts is not None:
            return self._send_counted(program, (begin, *counts.counts, end), counts.names)
        times = (begin, end, end)
        return self._marker.send_layout(program.layout, self._number, program.examples, times)

    def _send_counted(self, program: JaxProgram, times: Sequence[int], names: Tuple[str, ...]) -> bool:
        layout = program.counted.get(names)
        if layout is None:
            end = len(times) - 1
            places, counts = (end, *(0, end) * (1 + len(names))), range(1, end)
            made = self._marker.layout(1, ("phase.call", *names), places, program.like, counts)
            layout = program.counted[names] = made or False
        return bool(layout) and self._marker.send_layout(layout, self._number, program.examples, times)


def held(result: Any) -> Any:
    """An array that has is_ready(), as a queued call may keep it: a large one only weakly, or its memory
    would stay taken on the device after the training has let go of it."""
    return result if result is None or result.size <= MOST_HELD else weakref.ref(result)


def _is_ready(call: JaxCall) -> bool:
    """Whether the call has ended; of one whose result is gone nobody can say more."""
    result = call.result
    if type(result) is weakref.ref:
        result = result()
    try:
        return result is None or bool(result.is_ready())
    except RuntimeError:
        return True  # it was given away to a later call (donated), which cannot be before it is there
    except Exception:
        raise_again()
        return True
