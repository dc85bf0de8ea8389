"""Steps of a JAX process, from the calls of its compiled functions.

JAX only queues a call. A call is known to have ended when its result is ready, which is looked up where the
training is in our hands anyway: as the next call begins, as a call returns that the runtime had held back,
and as the training reads a result. No thread waits and nothing is synchronised. Calls that have ended between
two such moments share the time between them in proportion to their FLOPs. Around steps that a profiler is to
record, or records, each call is waited for: their borders must be known when they occur.

A step is a call of the function that trains: among the functions whose results are their own next arguments,
as parameters are, the one that does the most work. Other calls belong to the step that ends next, except that
a heavy one that does not occur in the usual step (an evaluation) belongs to no step.

The results of an evaluation may be its next arguments too, as metrics are, and another training may follow.
A function that is called alone for a while and does as much work trains now. One that does less may train:
its calls are kept. If the function that trained is called again, the other was an evaluation or a part of a
step; if it is not called for long, or the process ends, the kept calls were steps. If FLOPs are not known, a
function that is called alone for a while trains.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .. import Marker

ENOUGH_CALLS = 3  # of a function, before it is chosen
PATIENCE = 8  # calls of another training function after which the first may be no longer trained
MORE = 2  # times the FLOPs of a step are clearly more
FEW = 4  # one that was called at the end less than a quarter as often as there are steps evaluates
MOST_EARLY, MOST_QUEUED = 2048, 1024
MOST_WAITED = 256  # calls that are waited for while nothing trains
MOST_HELD = 1 << 17  # elements of a result that is kept until its call has ended: 1 MB of 8 bytes each
HEAVY = 0.05  # of the FLOPs of a step
SEND_CALLS, SEND_NS = 256, 200_000_000
UNKNOWN = float("nan")  # FLOPs of a step: no comparison with it is true


class CalledFunction:
    """A function that the training has compiled; all its executables."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.feeds_back = False  # its results were its own next arguments
        self.flops = UNKNOWN  # of the largest of its programs
        self.seen_after = -3  # number of the step that ended before its last call
        self.usual = True  # its calls since then belong to steps
        self.calls = 0  # so many
        self.flops_before = 0  # of what was called since then, before the first of them
        self.led = False  # its calls are or were steps
        self.passes = False  # it may train, but who trained before it was called again
        self.heavier = 0  # calls that do clearly more work than a step of this leader
        self.heavier_than: Optional[CalledFunction] = None


class JaxProgram:
    """One executable of a function, for arguments of certain shapes."""

    def __init__(
        self,
        function: CalledFunction,
        flops: Optional[int] = None,
        kernel: Optional[int] = None,
        examples: Optional[int] = None,
        like: int = 0,
    ) -> None:
        """kernel: its number in packets of executed kernels; None: it has none."""
        self.function = function
        self.flops = flops
        if flops is not None and not flops <= function.flops:
            function.flops = flops
        self.kernel = kernel
        self.examples = examples
        self.like = like
        # Of its steps; False: it has none. The second: by the names of the counts that a step has.
        self.layout: Any = None
        self.counted: Dict[Tuple[str, ...], Any] = {}


class JaxCall(NamedTuple):
    """A call of a program; its execution begins at dispatched_ns at the earliest."""

    program: JaxProgram
    begin_ns: int
    dispatched_ns: int
    result: Any  # what `held` made of an array it returned; None: nothing to look at


class _EndedCall(NamedTuple):
    """Without its result, whose memory is the training's to free."""

    program: JaxProgram
    called_ns: int
    begin_ns: int
    end_ns: int


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
        self.leader: Optional[CalledFunction] = None
        self._ready = 0  # of the queue's first calls, whose ends are known but not when they were
        self._ended_ns = 0
        self._early: List[_EndedCall] = []  # before the leader was chosen
        self._others: List[_EndedCall] = []  # calls of other functions since the leader's last
        self._others_flops = 0
        self._waiting: List[CalledFunction] = []  # of these, the ones that train if the leader does no more
        self._first = 0  # step of this leader
        self._number = -1
        self._border_ns = 0
        self._usual_flops = 0  # of what belongs to the next step, but trains nothing
        self._most_usual_flops = 0  # the most that this was in a step of this leader
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
        long = self._waited > (MOST_WAITED if self.leader is None else MOST_EARLY)
        # A training may begin late.
        if long and (self.leader is not None or len(self._early) >= MOST_EARLY // 2):
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
        if leads is not None and self.leader not in (None, leads):
            self._lead(leads)
            self._between = _BetweenSteps(
                "between.other", self._border_ns, max(self._border_ns, calls[0].begin_ns)
            )

    def finish(self, now: int) -> None:
        """The process ends."""
        if self.queue:
            self._end(len(self.queue), now)
        self._choose(1)
        while self._follow(self.steps_led() // FEW):
            pass
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
            self._add(_EndedCall(call.program, call.begin_ns, begin, end))
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

    def _add(self, ended: _EndedCall) -> None:
        program = ended.program
        if self._covered_ns is None:
            self._covered_ns = ended.called_ns
        if program.kernel is not None:
            self._calls.append((program.kernel, ended.begin_ns, ended.end_ns - ended.begin_ns))
        if self.leader is None:
            if len(self._early) >= MOST_EARLY:
                del self._early[: MOST_EARLY // 2]
            self._early.append(ended)
            if program.function.feeds_back:
                self._choose(ENOUGH_CALLS)
        else:
            self._place(ended)

    def _send_calls(self) -> None:
        calls, self._calls = self._calls, []
        self._sent_ns = self._ended_ns
        if self._covered_ns is not None and calls:
            self._marker.calls(calls, self._covered_ns, self._ended_ns)
            self._covered_ns = self._ended_ns

    def _choose(self, enough: int) -> None:
        """Make a function that trains the leader, once one has been called often enough."""
        if self.leader is not None:
            return
        calls: Dict[CalledFunction, List[int]] = {}
        for ended in self._early:
            function = ended.program.function
            if function.feeds_back:
                calls.setdefault(function, []).append(ended.program.flops or 0)
        if max(map(len, calls.values()), default=0) < enough:
            return
        most = max(map(len, calls.values()))
        # One that is called now and then is no step, whatever it does.
        often = [function for function, flops in calls.items() if 2 * len(flops) >= most - 1]
        self._lead(max(often, key=lambda function: max(calls[function])))
        early, self._early = self._early, []
        while early and early[0].program.function is not self.leader:
            early.pop(0)
        self._place_all(early)

    def _lead(self, function: CalledFunction) -> None:
        self.leader, function.led = function, True
        self._others, self._others_flops, self._waiting = [], 0, []
        self._usual_flops = self._most_usual_flops = 0
        self._first = self._number + 1
        self._marker.fact("steps.of", function.name)

    def _place(self, ended: _EndedCall) -> None:
        function = ended.program.function
        if function is self.leader:
            if self._others:
                self._others, self._others_flops = [], 0
                while self._waiting:
                    self._waiting.pop().passes = True
            self._step(ended)
            return
        if function.seen_after != self._number:
            # Of the usual step is what was called in one of the two before, too.
            function.usual = self._number - max(function.seen_after, self._first - 1) <= 2
            function.seen_after = self._number
            function.calls, function.flops_before = 0, self._others_flops
        function.calls += 1
        flops = ended.program.flops
        self._others.append(ended)
        if function.feeds_back and self._has_replaced(function, flops):
            return
        self._others_flops += flops or 0
        if len(self._others) >= MOST_EARLY:
            if self._follow(PATIENCE):
                return
            del self._others[: MOST_EARLY // 2]
        if function.usual:
            self._usual_flops += 0 if function.feeds_back else flops or 0
        elif flops is None or not flops < HEAVY * self.step_flops:
            begin = self._between.begin_ns if self._between else max(ended.called_ns, self._border_ns)
            self._between = _BetweenSteps("between.evaluation", begin, ended.end_ns)

    @property
    def step_flops(self) -> float:
        """FLOPs of the largest steps, as the last one of an epoch may be small; UNKNOWN."""
        return UNKNOWN if self.leader is None else self.leader.flops + self._most_usual_flops

    def steps_led(self) -> int:
        """How many steps this leader has made."""
        return self._number + 1 - self._first

    def _has_replaced(self, function: CalledFunction, flops: Optional[int]) -> bool:
        """Another function that trains was called: whether it makes the steps from now on."""
        step, leader = self.step_flops, self.leader
        if function.calls >= PATIENCE:
            since = self._others_flops - function.flops_before
            if not function.passes and (flops is None or not since < step * (function.calls - 1)):
                # One that waits may have trained meanwhile.
                return self._follow(self.steps_led() // FEW) or self._replace_leader(function)
            if since >= step * self.steps_led():
                if leader is not None:
                    leader.passes = function.led  # it came and went
                return self._replace_leader(function)
            if function.calls == PATIENCE:
                self._waiting.append(function)
        elif flops and flops >= MORE * step and not function.passes:
            # The two take turns.
            if function.heavier_than is not leader:
                function.heavier, function.heavier_than = 0, leader
            function.heavier += 1
            enough = function.heavier >= PATIENCE and function.heavier * flops >= step * self.steps_led()
            return enough and self._replace_leader(function)
        return False

    def _follow(self, least: int) -> bool:
        """The leader trains no more, so the first that waits does, of those that were called so often:
        whether there is one."""
        for function in self._waiting:
            if not function.passes and function.calls >= least:
                return self._replace_leader(function)
        return False

    def _replace_leader(self, function: CalledFunction) -> bool:
        """Another function has trained since its first call of these."""
        first = next(at for at, one in enumerate(self._others) if one.program.function is function)
        since = self._others[first:]
        self._lead(function)
        self._between = _BetweenSteps("between.other", self._border_ns, since[0].called_ns)
        self._place_all(since)
        return True

    def _place_all(self, calls: List[_EndedCall]) -> None:
        more = self._marker.more
        for ended in calls:
            self._marker.more = more or ended is not calls[-1]
            self._place(ended)

    def _step(self, ended: _EndedCall) -> None:
        """A call of the leader is a step, which began where the one before it ended."""
        program, called, begin, end = ended
        marker = self._marker
        if self._number < 0:
            marker.traces_with("jax")
            marker.border(-1, None, called)
            self._border_ns = called
        self._number += 1
        if self._usual_flops:
            # In the first two steps everything seems usual.
            if self._usual_flops > self._most_usual_flops or self._number - self._first < 3:
                self._most_usual_flops = self._usual_flops
            self._usual_flops = 0
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
    except Exception:
        return True  # it was given away to a later call (donated), which cannot be before it is there
