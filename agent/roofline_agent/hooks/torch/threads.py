"""PyTorch: a thread that trains next to the one whose steps are recorded, until it takes its place: one with
a training of its own after some steps, one into which the training has moved with the first update."""

from __future__ import annotations

import threading
from typing import Any, List, NamedTuple, Tuple

from .phases import BACKWARDS, LEAVES, OPTIMIZES

SURE = 4  # steps of another thread, while the one that trains does nothing, until it is taken for that
MOST_BACKWARDS = 64  # without an update that are kept


class OtherStep(NamedTuple):
    optimizer: int  # its id
    time_ns: int  # when its update was over
    batches: List[Any]  # that were used since the update before


class _Backward:
    __slots__ = ("batches", "begin", "end")

    def __init__(self, begin: int) -> None:
        self.begin, self.end = begin, 0
        self.batches: List[Any] = []


class OtherTraining:
    """The training of one thread: what it did while the one that trains did nothing."""

    __slots__ = ("_batches", "_depth", "_progress", "_update_ns", "backwards", "left_out", "steps", "thread")

    def __init__(self) -> None:
        self.left_out = 0  # updates of other threads that are in no step
        self.forget()

    def forget(self) -> None:
        """There is none now."""
        self.thread = 0
        self.backwards: List[_Backward] = []  # since the last update; of several threads, if it moves on
        self._progress: Any = None
        self._depth = self._update_ns = 0  # of updates inside one another; when the outermost began
        self._begin_anew(0)

    def _begin_anew(self, thread: int) -> None:
        self.thread = thread
        self.steps: List[OtherStep] = []
        self._batches: List[Any] = []

    def begins(self, thread: int, now: int, progress: Any) -> None:
        """A backward begins in this thread. progress: changes with all that the one that trains does."""
        if progress != self._progress:
            self.forget()
            self._progress = progress
        if thread != self.thread:
            self._begin_anew(thread)
        self._depth = self._update_ns = 0  # an update that raised has no end
        self.backwards = [*self.backwards[1 - MOST_BACKWARDS :], _Backward(now)]

    def replaces(self, trains: int) -> bool:
        """Whether it trains now instead of that thread: after some steps meanwhile, or if that has ended."""
        return len(self.steps) >= SURE or all(one.ident != trains for one in threading.enumerate())

    def uses(self, batches: List[Any]) -> None:
        """The backward that begins uses these."""
        self.backwards[-1].batches = batches
        self._batches += batches

    def passed(self, now: int) -> None:
        """The backward that began last is over, or another one inside it."""
        if self.backwards:
            self.backwards[-1].end = now

    def updating(self, thread: int, now: int) -> None:
        """In this thread an update begins: if it is one of it, perhaps inside another one."""
        if thread != self.thread:
            return
        self._depth += 1
        if self._depth == 1:
            self._update_ns = now

    def ends_update(self) -> bool:
        """An update is over; whether it was the outermost."""
        self._depth = max(0, self._depth - 1)
        return not self._depth

    def is_alone(self, progress: Any) -> bool:
        """Whether the thread that trains has still done nothing meanwhile."""
        return bool(progress == self._progress)

    def updated(self, optimizer: int, now: int) -> None:
        """An update of it is over."""
        self.left_out += 1
        self.steps = [*self.steps[1 - SURE :], OtherStep(optimizer, now, self._batches)]
        self._batches, self.backwards = [], []

    def events(self, updated_ns: int = 0) -> List[Tuple[int, int]]:
        """The backwards since the last update, and the update that is over at `updated_ns`, if one is: events
        (phases.py) with their times, in order. None of them where not all is known, as of backwards inside an
        update."""
        found = []
        for one in self.backwards:
            found += [(BACKWARDS, one.begin), (LEAVES, one.end)]
        if updated_ns:
            found += [(OPTIMIZES, self._update_ns), (LEAVES, updated_ns)]
        times = [time for _, time in found]
        return found if times == sorted(times) else []
