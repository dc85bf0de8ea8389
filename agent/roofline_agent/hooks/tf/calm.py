"""Keras `fit`: short steps in which nothing unusual happens. Their hook notes when each call began and ended,
nothing more; what follows is worked out for many steps together, with warm caches (why: torch/calm.py)."""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Optional, Tuple

from .. import Marker
from ..marker import CHARGED_NS, DEFERRED_NS

# What works it out, begin and end of the call, what else that needs; perhaps what the thread had in the step.
Noted = Tuple[Any, ...]


class CalmCalls:
    """Calls of one function, with one iterator, that make a step each."""

    __slots__ = ("_end", "function", "iterator", "left", "log", "marker", "until_ns")

    def __init__(self) -> None:
        self.log: Deque[Noted] = deque()  # taken from its begin only: another thread may add to it meanwhile
        self.marker: Optional[Marker] = None
        self._end = 0
        self.stop()

    def stop(self) -> None:
        """The next call is noted no more."""
        self.function = self.iterator = None  # type: Any
        self.left, self.until_ns = 0, 0  # so many calls are noted, and until then

    def forget(self) -> None:
        """In a forked child: what was noted is its parent's."""
        self.stop()
        self.log.clear()

    def begin(self, marker: Marker, number: int, now: int, function: Any, iterator: Any) -> bool:
        """Behind step `number`, which ended at `now`: note calls of this function with this iterator. False:
        the next step must be sent immediately, and none is noted."""
        self.marker, self._end = marker, marker.deferred_to()
        self.left = self._until_asked(marker, number)
        if self.left <= 0:
            return False
        self.function, self.iterator, self.until_ns = function, iterator, now + DEFERRED_NS
        marker.account.beside_ns = CHARGED_NS
        return True

    def add(self, noted: Noted) -> bool:
        """Note a call; whether there may be more to do behind it."""
        self.log.append(noted)
        self.left = left = self.left - 1
        return left <= 0 or bool(noted[2] >= self.until_ns)

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
