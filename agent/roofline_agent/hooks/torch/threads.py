"""PyTorch: a thread that trains next to the one whose steps are recorded, until it takes its place."""

from __future__ import annotations

import threading
from typing import Any, List, NamedTuple

SURE = 4  # steps of another thread, while the one that trains does nothing, until it is taken for that


class OtherStep(NamedTuple):
    optimizer: int  # its id
    time_ns: int  # when its update was over
    batches: List[Any]  # that were used since the update before


class OtherTraining:
    """The training of one thread: what it did while the one that trains did nothing."""

    __slots__ = ("_batches", "_progress", "steps", "thread")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """There is none now."""
        self.thread = 0
        self.steps: List[OtherStep] = []
        self._batches: List[Any] = []
        self._progress: Any = None

    def begins(self, thread: int, progress: Any) -> None:
        """A backward begins in this thread. progress: changes with all that the one that trains does."""
        if thread != self.thread or progress != self._progress:
            self.forget()
            self.thread, self._progress = thread, progress

    def replaces(self, trains: int) -> bool:
        """Whether it trains now instead of that thread: after some steps meanwhile, or if that has ended."""
        return len(self.steps) >= SURE or all(one.ident != trains for one in threading.enumerate())

    def uses(self, batches: List[Any]) -> None:
        """The backward that begins uses these."""
        self._batches += batches

    def updated(self, optimizer: int, now: int) -> None:
        """An update of it is over."""
        self.steps = [*self.steps[1 - SURE :], OtherStep(optimizer, now, self._batches)]
        self._batches = []
