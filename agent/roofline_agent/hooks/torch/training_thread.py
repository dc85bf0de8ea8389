"""PyTorch: which thread trains. The steps are those of one thread, until another takes its place: one with a
training of its own, or one into which the training has moved, as with asyncio in any step. What the other
thread did meanwhile is noted in threads.py.
"""

from __future__ import annotations

import threading
from typing import Any, Tuple

from .threads import OtherTraining


class TrainingThread:
    """The thread whose steps are recorded. Its identity is record.thread, which hooks read in every step."""

    __slots__ = ("_record", "other")

    def __init__(self, record: Any) -> None:
        self._record = record
        self.other = OtherTraining()

    def becomes(self, thread: int) -> None:
        """This thread trains from now on."""
        self._record.thread = thread
        self.other.forget()
        self._record.batches.trains(thread)

    def is_replaced(self, now: int) -> bool:
        """A backward begins in another thread than the one that trains; whether that is now the one."""
        record, other, thread = self._record, self.other, threading.get_ident()
        other.begins(thread, now, self._progress())
        record.batches.other = thread
        if not other.replaces(record.thread):
            other.uses(record.batches.backward_of_other())
            if not record.inside:
                record.stepping = 0  # the next update is not noted as that of a calm step, whosever it is
            return False
        if record.calm is not None:
            record.calm_steps.catch_up()
        record.turns.stepped.clear()
        other.left_out -= len(other.steps)
        for key, now, batches in other.steps:
            record.updating(key)
            record.batches.add(batches)
            record.updated(key, now)
        if record.updates is not None:
            record.updates.failed()  # what that thread began and did not end
        self.becomes(thread)
        return True

    def has_moved(self, key: int) -> bool:
        """Whether the other thread, which made an update of this optimizer, goes on with the training."""
        record = self._record
        return not record.inside and record.turns.takes_part(key) and self.other.is_alone(self._progress())

    def moves_to_other(self, key: int, now: int) -> None:
        """The training has moved into another thread, which made an update of its optimizer `key`, and which
        trains now."""
        record, other = self._record, self.other
        if record.calm is not None:
            record.calm_steps.catch_up()
        record.batches.moved([one.batches for one in other.backwards])
        events = other.events(now)
        self.becomes(other.thread)
        record.moves = True
        record.updating(key)
        for event, at in events:
            record.note(event, at)
        record.updated(key, now)

    def goes_on(self) -> None:
        """A training that moves begins a backward in the thread that trains: those that were in other threads
        meanwhile are of the same step."""
        record, other = self._record, self.other
        if other.backwards and other.is_alone(self._progress()):
            record.batches.moved([one.batches for one in other.backwards])
            for event, at in other.events():
                record.note(event, at)
        other.backwards = []

    def _progress(self) -> Tuple[int, ...]:
        """What changes with all that the training thread does."""
        record, borders = self._record, self._record.borders
        waiting = len(borders.deferred), len(borders.uncertain)
        return (record.steps.sent, *waiting, len(record.times), len(record.calm_steps.log))
