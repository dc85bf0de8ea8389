"""Steps of a TensorFlow process, one after the other: step k goes from the end of step k-1 to the end of its
call.

So what a rank does between two calls (waiting for input, a callback, a sleep) is in the step of the rank that
does it, and the steps of a training loop add up to its time. An evaluation, a checkpoint and the end of an
epoch are between two steps; the next one begins after them. A call that makes several updates has as many
steps, each an equal part of its time: nobody sees when one update ended and the next began. There is one
object for all hooks of a process: the numbers go on, whatever is trained.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, FrozenSet, Hashable, List, Optional, Sequence, Tuple

from .. import Marker
from ..marker import SHORT_NS
from .calls import TrainingCall, alike
from .calm import Batch, CalmCalls, CalmFunction
from .cost import COST_FROM, StepCost
from .layouts import StepLayouts
from .leader import Leader
from .parts import Phase, borders, cut, share, uncovered

MAX_SPANS, ROOM = 128, 32  # kept of one step, and where the last is something else
MOST_ALIKE = 8  # phases of a step that has a layout
MOST_BETWEEN = 64  # stretches between two steps that are kept
INPUT = "phase.input"
FROM_CALLS = "calls of up to %d updates: each is an equal part of its call, its own time is not known"

_now = time.monotonic_ns


class _Taken:
    """What was taken from one iterator since the last step."""

    __slots__ = ("batches", "begin_ns", "end_ns", "examples", "shapes")

    def __init__(self, begin_ns: int) -> None:
        self.examples: Optional[int] = 0
        self.shapes: Hashable = ()  # of all batches; None: not known
        self.batches = 0
        self.begin_ns = self.end_ns = begin_ns


class Steps:
    """What this process trains, and when its last step ended."""

    def __init__(self) -> None:
        self.quiet = 0  # above 0 while another hook marks what runs now
        self.away = 0  # above 0 while it evaluates or writes a checkpoint
        self.coordinated = False  # a chief: its workers' steps are marked where their closures end
        self.number = -1  # of the last step
        self._ended_ns: Optional[int] = None  # of the last step
        self._detached = True  # the next step begins with its own input or call
        self._between: List[Tuple[str, int, int]] = []  # kind, begin and end of what lay there since
        self._phases: List[Phase] = []
        self._taken: Dict[int, _Taken] = {}  # by iterator, since the last step
        self._usual: FrozenSet[int] = frozenset()  # iterators that the last step took from
        self._leader = Leader()
        self._layouts = StepLayouts()
        # Examples and signatures of the calls of this step that made no update.
        self._carried: List[Tuple[Optional[int], Hashable]] = []
        self.updates_elsewhere = 0  # by calls that only update
        self._each = 1  # the most updates that a call has made
        self.cost = StepCost()
        self.calm = CalmCalls()
        self._noting_ns = self._input_ns = 0  # what it takes to note a call and a batch, once that is known
        self._short = False  # the last step was short, and sent by a layout
        self._plain = False  # and its call was all that was seen in it
        self._may_defer: Optional[bool] = None
        os.register_at_fork(after_in_child=self.calm.forget)

    @property
    def carries(self) -> bool:
        """Whether calls of this step took gradients and made no update."""
        return bool(self._carried)

    def settle(self) -> None:
        """Work out what was only noted of calm steps: something else comes, or the training ends."""
        many, batches = len(self.calm.log), self.calm.take_batches()
        if many:
            begin, marker = _now(), self.calm.marker
            self.calm.work_out()
            if marker is not None and self.number >= COST_FROM:
                self.cost.add(marker, self._noting_ns + self._input_ns + (_now() - begin) // many, many)
        elif self.calm.function is not None:
            self.calm.stop()
        for one in batches:  # behind the last call that was noted
            self._took(*one)

    def look(self, now: int) -> None:
        """Something else than a step was over at `now`: what was noted waits no longer if it has for long."""
        if self.calm.log and now >= self.calm.until_ns:
            self.settle()

    def calm_down(self, marker: Marker, function: CalmFunction, iterator: Any) -> None:
        """Behind a step: if it was plain, only note the next calls of this function with this iterator, and
        what is taken between them if it takes input. Later function.work_out() passes all to were_ended()."""
        calms = self._short if function.takes_input else self._plain
        if not calms or self._ended_ns is None or marker.stall is not None:
            return
        if self._may_defer is None:
            self._may_defer = marker.defers(self.settle)
        if self._may_defer and self.calm.begin(marker, self.number, self._ended_ns, function, iterator):
            self.cost.measuring, self._input_ns = False, 0

    def calm_border(self, now: int) -> None:
        """A call of a calm step was noted, which ended at `now`: there may be more to do."""
        calm = self.calm
        marker, function, iterator = calm.marker, calm.function, calm.iterator
        if marker is None:
            return
        try:
            if calm.border(self.number + len(calm.log)):
                self._noting_ns = _now() - now
                self.settle()
                self.calm_down(marker, function, iterator)
        except Exception:
            marker.failed("tf_steps")

    def note(self, name: str, begin_ns: int, end_ns: int) -> None:
        """This process was at phase `name` since its last step."""
        many = len(self._phases)
        if many < MAX_SPANS or (many < MAX_SPANS + ROOM and self._phases[-1][0] != name):
            self._phases.append((name, begin_ns, end_ns, None, 1))
            return
        # The time counts, its place is lost: the last phase is extended by it.
        last, begun, ended, _, count = self._phases[-1]
        self._phases[-1] = (last, begun, ended + end_ns - begin_ns, None, count + 1)

    def took(
        self, iterator: Any, size: Optional[int], begin_ns: int, end_ns: int, shapes: Hashable = None
    ) -> None:
        """A batch of `size` examples (None: not known) and these shapes was taken from an iterator."""
        if self.away:
            return
        batch = (id(iterator), size, begin_ns, end_ns, shapes)
        if self.calm.add_batch(batch):
            if not self._input_ns:
                self._input_ns = _now() - end_ns
            return
        self.settle()
        self._took(*batch)

    def _took(self, iterator: int, size: Optional[int], begin_ns: int, end_ns: int, shapes: Hashable) -> None:
        taken = self._taken.get(iterator)
        if taken is None:
            taken = self._taken[iterator] = _Taken(begin_ns)
        taken.examples = None if taken.examples is None or size is None else taken.examples + size
        if not taken.batches:
            taken.shapes = shapes
        elif taken.shapes is not None:  # one number: a loop may take any number of batches and train nothing
            taken.shapes = None if shapes is None else hash((taken.shapes, shapes))
        taken.batches += 1
        taken.end_ns = end_ns
        self.note(INPUT, begin_ns, end_ns)

    def exhausted(self, iterator: Any, now: int) -> None:
        """An iterator has no more. What was taken from it and trained nothing was an evaluation."""
        self.settle()
        taken = None if self.away else self._taken.get(id(iterator))
        if taken is not None and self._ended_ns is not None:
            self.between("evaluation", taken.begin_ns, now)
            self._taken.clear()
        self.broken()

    def between(self, kind: str, begin_ns: int, end_ns: int) -> None:
        """An evaluation or a checkpoint, which belongs to no step."""
        self.settle()
        if self._ended_ns is not None and len(self._between) < MOST_BETWEEN:
            self._between.append((kind, begin_ns, end_ns))

    def broken(self) -> None:
        """An epoch or an evaluation ended, or a call failed: the next step begins with its own input or
        call."""
        self.settle()
        if not self.away:
            self._detached = True
            self._phases, self._taken, self._carried = [], {}, []

    def lead(self, key: Any) -> None:
        """From now on a step is what `key` (a model, a function, a variable) does."""
        self.settle()
        self._leader.becomes(key)
        self.broken()

    def ended(self, marker: Marker, key: Any, call: TrainingCall) -> None:
        """A call that trains `key` ended. Of several that take turns one makes the steps (leader.py)."""
        self.settle()
        self._end(marker, key, call, marker.over)

    def were_ended(
        self,
        marker: Marker,
        key: Any,
        calls: List[TrainingCall],
        counts: List[Any],
        inputs: Sequence[Sequence[Batch]] = (),
    ) -> None:
        """Calls of calm steps ended, each as in `ended`; counts: what the thread had in each step, where that
        is known; inputs: batches taken before each of them, if there are any at all."""
        at = 0
        while at < len(calls):
            many = alike(calls, counts, at)
            if many > 1 and not inputs and self._send_plain(marker, calls[at : at + many]):
                at += many
                continue
            for one in inputs[at] if inputs else ():
                self._took(*one)
            marker.more = at + 1 < len(calls)
            self._end(marker, key, calls[at], lambda *_: counts[at])  # noqa: B023 - called at once
            at += 1
        marker.more = False

    def _end(self, marker: Marker, key: Any, call: TrainingCall, over: Callable[[int, int], Any]) -> None:
        self._short = self._plain = False
        if self._ended_ns is None:
            marker.traces_with("tensorflow")
        stall = marker.take_stall()
        if stall is not None:  # behind the step before
            self.between("trace", *stall)
        led = self._leader.is_now(key)
        if call.only_updates:
            if not self._carried or not self._leader.goes_on():
                return
            self.updates_elsewhere += 1
        elif not self._leader.makes_steps(key):
            self._note_call(call.phase, call.begin_ns, call.end_ns)
            return
        elif not led:
            self._carried = []  # of what led before
        if call.updates < 1:
            self._carry(marker, call)
            return
        counts = over(self.number + call.updates, call.end_ns)
        if led and self._send_alike(marker, call, counts):
            return
        before, first = self._ended_ns, self._begin(marker, call)
        self._note_call(call.phase, call.begin_ns, call.end_ns)
        examples = self._examples(call.examples)
        like = self._like(marker, call, examples)
        phases = [one for one in self._phases if one[1] >= first]
        self._over(call.end_ns)
        if call.updates > self._each:
            self._each = call.updates
            marker.fact("steps.from", FROM_CALLS % call.updates)
        if call.updates == 1:
            self.number += 1
            if counts is not None and first == before:
                phases += counts.spans()
            marker.spans(phases)
            marker.window(self.number, first, call.end_ns, examples, like=like)
        else:
            self._send_parts(marker, borders(first, call.end_ns, call.updates), phases, examples, like)

    def _carry(self, marker: Marker, call: TrainingCall) -> None:
        """A call of the leader made no update: it is a part of the step of a later one."""
        if self._detached:
            self._begin(marker, call)
        self._note_call(call.phase, call.begin_ns, call.end_ns)
        self._carried.append((call.examples, call.signature))

    def _begin(self, marker: Marker, call: TrainingCall) -> int:
        """When the step that the call is part of began: where the last one ended, after what lay between, or
        with the input taken before its call."""
        self._find_evaluation()
        begin = call.begin_ns if call.since_ns is None else call.since_ns
        if self._ended_ns is not None and not self._detached:
            begin = self._ended_ns
        else:
            inputs = [one[1] for one in self._phases if one[0] == INPUT and one[1] < call.begin_ns]
            if inputs:
                begin = min(begin, inputs[-1])
        if self._between:
            begin = min(max(begin, self._between[-1][2]), call.begin_ns)
        if self._ended_ns is not None:
            between = [("between." + kind, first, last, None, 1) for kind, first, last in self._between]
            rest = uncovered(self._ended_ns, begin, self._between)
            marker.spans([*between, *(("between.other", first, last, None, 1) for first, last in rest)])
        self._between, self._detached, self._ended_ns = [], False, begin
        return begin

    def _find_evaluation(self) -> None:
        # A loop of evaluation that stops before its data do: batches of another source, before our own.
        others = [taken for key, taken in self._taken.items() if key not in self._usual]
        own = [taken.begin_ns for key, taken in self._taken.items() if key in self._usual]
        if own and others and self._ended_ns is not None:
            begin, end = min(own), max(taken.end_ns for taken in others)
            if end <= begin and sum(taken.batches for taken in others) > 1:
                self.between("evaluation", min(taken.begin_ns for taken in others), begin)
                self._taken = {key: taken for key, taken in self._taken.items() if key in self._usual}

    def _examples(self, known: Optional[int]) -> Optional[int]:
        if known is None and len(self._taken) == 1:
            (taken,) = self._taken.values()
            return taken.examples
        sizes = [size for size, _ in self._carried]
        if known is None or None in sizes:
            return None
        return known + sum(size for size in sizes if size is not None)

    def _like(self, marker: Marker, call: TrainingCall, examples: Optional[int]) -> int:
        carried = tuple([signature for _, signature in self._carried]) if self._carried else ()
        if None in (call.signature, examples, *carried):
            return 0
        if not self._taken or call.examples is not None:  # its own arguments decide what the call does
            return marker.like((call.signature, examples, call.updates, carried))
        shapes = [taken.shapes for taken in self._taken.values()]
        # A batch nested in what cannot be looked through is as unknown as none.
        return (
            0 if None in shapes else marker.like((call.signature, examples, call.updates, carried, *shapes))
        )

    def _over(self, end_ns: int) -> None:
        """A step is over."""
        if self._taken:
            self._usual = frozenset(self._taken)
        self._phases, self._taken, self._carried, self._ended_ns = [], {}, [], end_ns

    def _send_parts(
        self, marker: Marker, at: List[int], phases: List[Phase], examples: Optional[int], like: int
    ) -> None:
        count, more = len(at) - 1, marker.more
        pieces = cut(phases, at)
        for part in range(count):
            self.number += 1
            marker.more = more or part + 1 < count
            marker.spans(pieces[part])
            marker.window(self.number, at[part], at[part + 1], share(examples, count, part), like=like)
        marker.more = more

    def _send_alike(self, marker: Marker, call: TrainingCall, counts: Any) -> bool:
        """Send a step by a layout, if it follows another one and all its input came before its call."""
        # Left by the guards are steps with their moments in a known order, as a layout needs them.
        phases, first, begin_ns, end_ns = self._phases, self._ended_ns, call.begin_ns, call.end_ns
        if call.updates != 1 or self._between or self._detached or self._carried:
            return False
        if first is None or begin_ns < first or len(phases) > MOST_ALIKE or end_ns <= begin_ns:
            return False
        if len(self._taken) > 1 or (phases and (phases[0][1] < first or phases[-1][2] > begin_ns)):
            return False
        names, times = [], [first]
        for name, began, ended, _, _ in phases:
            names.append(name)
            times += (began, ended)
        times += (begin_ns, end_ns)
        examples = self._examples(call.examples)
        like = self._like(marker, call, examples)
        names.append(call.phase)
        layout = self._layouts.of(marker, names, like, counts)
        if counts is not None:
            times[-1:] = [*counts.counts, end_ns]
        if not layout or not marker.send_layout(layout, self.number + 1, examples, times):
            return False
        self.number += 1
        self._short = end_ns - first < SHORT_NS
        self._plain = self._short and not phases
        if self._taken:
            self._usual = frozenset(self._taken)
            self._taken.clear()
        self._ended_ns = end_ns
        phases.clear()
        return True

    def _send_plain(self, marker: Marker, calls: List[TrainingCall]) -> bool:
        """Send steps that differ in their times only, of which nothing but the calls was seen."""
        first, call = self._ended_ns, calls[0]
        if first is None or self._detached or self._between or self._phases or self._taken or self._carried:
            return False
        ends = [one.end_ns for one in calls]
        begins = [first, *ends[:-1]]
        times = [(begins[at], one.begin_ns, one.end_ns) for at, one in enumerate(calls)]
        if any(not before <= begin < end for before, begin, end in times):
            return False
        like = self._like(marker, call, call.examples)
        layout = self._layouts.of(marker, [call.phase], like, None)
        if not layout or not marker.send_layouts(layout, self.number + 1, call.examples, times):
            return False
        self.number += len(calls)
        self._ended_ns = ends[-1]
        self._short = self._plain = ends[-1] - begins[-1] < SHORT_NS
        return True

    def _note_call(self, phase: str, begin_ns: int, end_ns: int) -> None:
        # Input taken during the call has its own place; the call is what lies around it.
        inside = [one for one in self._phases if one[1] >= begin_ns]
        for one in inside:
            if one[1] > begin_ns:
                self.note(phase, begin_ns, one[1])
            begin_ns = max(begin_ns, one[2])
        if end_ns > begin_ns:
            self.note(phase, begin_ns, end_ns)


steps = Steps()
