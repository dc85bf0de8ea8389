"""Steps of a TensorFlow process, one after the other: step k goes from the end of step k-1 to the end of its
call.

So what a rank does between two calls (waiting for input, a callback, a sleep) is in the step of the rank that
does it, and the steps of a training loop add up to its time. After a break (an epoch's end, an evaluation, a
failed call) the next step begins with its own input or call. One object for all hooks of a process: the
numbers go on, whatever is trained.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Tuple

from . import Marker

PATIENCE = 8  # calls of others after which the first thing trained counts as no longer trained
MAX_SPANS, ROOM = 128, 32  # kept of one step, and where the last is something else
MOST_ALIKE, MOST_LAYOUTS = 8, 64  # phases of a step, and kinds of steps, that have a layout
INPUT = "phase.input"

Phase = Tuple[str, int, int, Optional[int], int]


class Steps:
    """What this process trains, and when its last step ended."""

    def __init__(self) -> None:
        self.quiet = 0  # above 0 while another hook marks what runs now
        self.coordinated = False  # a chief: its workers' steps are marked where their closures end
        self._number = -1
        self._ended_ns: Optional[int] = None
        self._phases: List[Phase] = []
        self._batches: Dict[int, Optional[int]] = {}  # iterator -> examples taken from it since the last step
        self._leader: Any = lambda: None  # what the steps are of, weakly
        self._others = 0
        self._layouts: Dict[Tuple[str, ...], Any] = {}  # names of the phases of steps that are alike

    def note(self, name: str, begin_ns: int, end_ns: int) -> None:
        """This process was at phase `name` since its last step."""
        many = len(self._phases)
        if many < MAX_SPANS or (many < MAX_SPANS + ROOM and self._phases[-1][0] != name):
            self._phases.append((name, begin_ns, end_ns, None, 1))
            return
        # The time counts, its place is lost: the last phase is extended by it.
        last, begun, ended, _, count = self._phases[-1]
        self._phases[-1] = (last, begun, ended + end_ns - begin_ns, None, count + 1)

    def took(self, iterator: Any, size: Optional[int], begin_ns: int, end_ns: int) -> None:
        """A batch of `size` examples (None: not known) was taken from an iterator."""
        before = self._batches.get(id(iterator), 0)
        self._batches[id(iterator)] = None if before is None or size is None else before + size
        self.note(INPUT, begin_ns, end_ns)

    def broken(self) -> None:
        """An epoch or an evaluation ended, or a call failed: the time since the last step is in no step."""
        self._ended_ns = None
        self._phases, self._batches = [], {}

    def lead(self, key: Any) -> None:
        """From now on a step is what `key` (a model, a function, a variable) does."""
        self._leader, self._others = weakref.ref(key), 0
        self.broken()

    def ended(
        self,
        marker: Marker,
        key: Any,
        begin_ns: int,
        end_ns: int,
        examples: Optional[int] = None,
        phase: str = "phase.call",
        since_ns: Optional[int] = None,
    ) -> None:
        """A call that trains `key` ended. Of several that take turns, as in a GAN, the first makes the steps.

        examples: None if unknown from the call; then those taken in Python count, if from one iterator.
        since_ns: when the step began at the latest, in case nothing earlier is known of it.
        """
        # The call is the leader's, another's in its turn, or that of a new leader.
        leader = self._leader()
        if leader is key:
            self._others = 0
            if self._send_alike(marker, begin_ns, end_ns, examples, phase):
                return
        elif leader is not None and self._others < PATIENCE:
            self._others += 1
            self._note_call(phase, begin_ns, end_ns)
            return
        else:
            self._leader, self._others = weakref.ref(key), 0
        # A step begins where the last one ended; the first one, with the input taken before its call.
        first = begin_ns if since_ns is None else since_ns
        if self._ended_ns is not None:
            first = self._ended_ns
        else:
            inputs = [one[1] for one in self._phases if one[0] == INPUT and one[1] < begin_ns]
            if inputs:
                first = min(first, inputs[-1])
        self._note_call(phase, begin_ns, end_ns)
        self._number += 1
        phases, examples = self._phases, self._examples(examples)
        self._phases, self._batches, self._ended_ns = [], {}, end_ns
        marker.spans([one for one in phases if one[1] >= first])
        marker.window(self._number, first, end_ns, examples)

    def _examples(self, known: Optional[int]) -> Optional[int]:
        if known is None and len(self._batches) == 1:
            (known,) = self._batches.values()
        return known

    def _send_alike(
        self, marker: Marker, begin_ns: int, end_ns: int, examples: Optional[int], phase: str
    ) -> bool:
        """Send a step by a layout, if it follows another one and all its input came before its call."""
        # Left by the guards are steps with their moments in a known order, as a layout needs them.
        phases, first = self._phases, self._ended_ns
        if first is None or begin_ns < first or len(phases) > MOST_ALIKE or end_ns <= begin_ns:
            return False
        if phases and (phases[0][1] < first or phases[-1][2] > begin_ns):
            return False
        names, times = [], [first]
        for name, began, ended, _, _ in phases:
            names.append(name)
            times += (began, ended)
        times += (begin_ns, end_ns)
        key = (*names, phase)
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= MOST_LAYOUTS:
                self._layouts.clear()
            last = 2 * len(key)
            layout = self._layouts[key] = marker.layout(2, key, (0, last, *range(1, last + 1))) or False
        number, examples = self._number + 1, self._examples(examples)
        if not layout or not marker.send_layout(layout, number, examples, times):
            return False
        self._number = number
        self._ended_ns = end_ns
        phases.clear()
        self._batches.clear()
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
