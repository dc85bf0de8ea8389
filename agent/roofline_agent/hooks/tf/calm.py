"""Short steps in which nothing unusual happens. Their hooks note when each call began and ended, and what a
loop written by hand took from its dataset; what follows is worked out for many steps together, with warm
caches (why: torch/calm.py)."""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Hashable, List, Optional, Tuple

from .. import Marker
from ..marker import CHARGED_NS, DEFERRED_NS

# What works it out, begin and end of the call, what else that needs; perhaps what the thread had in the step.
Noted = Tuple[Any, ...]
# A batch that was taken: identity of its iterator, examples (None: not known), begin, end, shapes (None: not
# known).
Batch = Tuple[int, Optional[int], int, int, Hashable]
NEVER = 1 << 62
MOST_INPUTS = 8  # batches of one step that are only noted


class CalmFunction:
    """A function whose calls may be calm steps."""

    takes_input = True  # its steps may have batches that Python takes from a dataset

    def calm_calls(self) -> int:
        """So many of the next calls need nothing but to be noted, and make an update each."""
        return NEVER

    def work_out(self, noted: List[Any]) -> None:
        """Hand over the steps of these calls: of each, what was noted behind `Noted`'s first."""
        raise NotImplementedError


class CalmCalls:
    """Calls of one function, with one iterator, that make a step each."""

    __slots__ = ("_end", "function", "inputs", "iterator", "left", "log", "marker", "until_ns")

    def __init__(self) -> None:
        self.log: Deque[Noted] = deque()  # taken from its begin only: another thread may add to it meanwhile
        self.marker: Optional[Marker] = None
        self._end = 0
        self.stop()

    def stop(self) -> None:
        """The next call is noted no more."""
        self.function = self.iterator = None  # type: Any
        # Batches since the last call that was noted; None: the next batch is not to be noted.
        self.inputs: Optional[List[Batch]] = None
        self.left, self.until_ns = 0, 0  # so many calls are noted, and until then

    def forget(self) -> None:
        """In a forked child: what was noted is its parent's."""
        self.stop()
        self.log.clear()

    def begin(self, marker: Marker, number: int, now: int, function: CalmFunction, iterator: Any) -> bool:
        """Behind step `number`, which ended at `now`: note calls of this function with this iterator. False:
        the next step must be sent immediately, and none is noted."""
        self.marker, self._end = marker, min(marker.deferred_to(), number + 1 + function.calm_calls())
        self.left = self._until_asked(marker, number)
        if self.left <= 0:
            return False
        self.function, self.iterator, self.until_ns = function, iterator, now + DEFERRED_NS
        self.inputs = [] if function.takes_input else None
        marker.account.beside_ns = CHARGED_NS
        return True

    def add(self, noted: Noted) -> bool:
        """Note a call; whether there may be more to do behind it."""
        self.log.append(noted)
        self.left = left = self.left - 1
        return left <= 0 or bool(noted[2] >= self.until_ns)

    def add_batch(self, batch: Batch) -> bool:
        """Note a batch that the next call may train on; False: it is not to be only noted."""
        inputs = self.inputs
        if inputs is None or len(inputs) >= MOST_INPUTS or batch[3] >= self.until_ns:
            return False
        inputs.append(batch)
        return True

    def take_batches(self) -> Any:
        """Those noted since this was asked last."""
        inputs = self.inputs
        if not inputs:
            return ()
        self.inputs = []
        return inputs

    def _until_asked(self, marker: Marker, number: int) -> int:
        """Steps behind this one that need nothing but to be noted, up to one that the account asks for."""
        return min(self._end, int(marker.account.next) + 1) - number - 1

    def border(self, number: int) -> bool:
        """Step `number` was noted, after which there may be more to do; whether these are the last calm
        steps for now."""
        marker, noted = self.marker, self.log[-1]
        if marker is None:
            return True
        end_ns = noted[2]
        account = marker.account
        if account.on or number >= account.next:
            counts = marker.over(number, end_ns)
            if counts is not None:
                self.log[-1] = (*noted, counts)
        self.left = self._until_asked(marker, number)
        return self.left <= 0 or end_ns >= self.until_ns

    def work_out(self) -> None:
        """Have the function work out what was noted, in its order."""
        log = self.log
        self.stop()
        while log:
            function, noted = log[0][0], []
            try:
                while log and log[0][0] is function:
                    noted.append(log.popleft()[1:])
            except IndexError:
                pass  # another thread was at it
            function.work_out(noted)
