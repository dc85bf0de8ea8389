"""PyTorch: short steps in which nothing unusual happens. Their hooks note what happened and when, nothing
more; what that means is worked out for many steps together. Reads no clock: the caller passes the time.

Between two steps a training pushes the code of hooks and their data out of the caches, so each line of them
costs ten times what it does in a loop of its own. Together they are worked out with warm caches.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional

from .. import Marker
from ..marker import CHARGED_NS, DEFERRED_NS
from .phases import BACKWARDS, FETCHED, FORWARDS, GRADIENTS_READY, INPUTS, LEAVES, OPTIMIZES

PASSED, UPDATED = 16, 17  # in addition to events of phases.py: the end of a backward, and of an update
MOST_DISTURBED = 16  # calm stretches in a row that were broken off: such a training is left alone

# What most steps are, and their events: of a rank alone, and of one of DDP.
PLAIN = {
    (FETCHED, BACKWARDS, PASSED, OPTIMIZES, UPDATED): bytes(
        [INPUTS, FETCHED, BACKWARDS, LEAVES, OPTIMIZES, LEAVES]
    ),
    (FETCHED, FORWARDS, BACKWARDS, GRADIENTS_READY, PASSED, OPTIMIZES, UPDATED): bytes(
        [INPUTS, FETCHED, FORWARDS, BACKWARDS, GRADIENTS_READY, LEAVES, OPTIMIZES, LEAVES]
    ),
}


class PlainSteps(NamedTuple):
    """Steps that are all alike and follow on one another."""

    events: bytes  # of each
    sizes: Any  # examples and shapes of the batch of each
    times: List[List[int]]  # of each: of its events, and when it ended


class CalmSteps:
    """When the steps of a recorder are calm. While they are, its hooks append to the log, by record.calm."""

    __slots__ = ("_disturbed", "_end", "_marker", "_record", "_stop", "log")

    def __init__(self, record: Any, marker: Marker) -> None:
        self._record, self._marker = record, marker
        self.reset()

    def reset(self) -> None:
        """A process begins with nothing noted."""
        self._stop = self._end = 0  # at which of the next steps borders calm_left and calm are over
        self.log: List[Any] = []
        self._disturbed = 0  # calm stretches in a row that were broken off

    def begin(self) -> None:
        """After a border: if what follows will be as what was before, the next steps are calm."""
        record, borders = self._record, self._record.borders
        if (
            not (borders.short and borders.may_defer)
            or borders.uncertain
            or record.between.stretches
            or self._disturbed >= MOST_DISTURBED
            or record.batches.from_other_thread  # what it fetches would come before what was only noted
            or record.turns.alone is None
            or record.capturing is not None
        ):
            return
        asked = record.asked_at_border
        if asked and not all(getattr(call, "may_wait", False) for call in asked):
            return
        defer_to = borders.find_defer_to() if borders.defer_to is None else borders.defer_to
        next_ = record.steps.sent + len(borders.deferred)
        self._end = next_ + 1 if record.sampled else defer_to
        self._follow(next_)
        if record.calm_left > 0:
            record.calm, record.calm_until_ns = self.log.append, borders.handed_ns + DEFERRED_NS
            record.stepping, record.inside, record.iterator = record.turns.alone, False, 0
            record.account.beside_ns = CHARGED_NS
            record.batches.holds = True

    def _follow(self, number: int) -> None:
        """Of the calm steps the next is of this number; those behind it need nothing but to be noted until
        the end of one that the account asks for."""
        self._stop = min(self._end, self._record.account.next + 1)
        self._record.calm_left = self._stop - number

    def border(self, now: int) -> None:
        """The last update that was noted ended its step at `now`; there is more to do than to note that."""
        record, account = self._record, self._record.account
        number = self._stop - 1 - record.calm_left
        if account.on or number >= account.next:
            read = account.read(now) if account.on else now
            counts = self._marker.over(number, read)
            self.log[-1] = (UPDATED, read) if counts is None else (UPDATED, read, counts)
            record.iterator = 0  # the next fetch looks whether it is measured
        if number + 1 >= self._end or now >= record.calm_until_ns:
            self._disturbed = 0
            self.catch_up()
            record.ask_at_border(now)
            self.begin()
        else:
            self._follow(number + 1)

    def break_off(self) -> None:
        """What follows is noted in full until the next border."""
        self._disturbed += 1
        self.catch_up()

    def catch_up(self) -> None:
        """The calm steps are over: work out what was noted of them."""
        record = self._record
        record.calm = None
        log, self.log = self.log, []
        waits = record.waits  # of the step that goes on
        if log:
            try:
                work_out(record, log)
            except Exception:
                record.failed("torch_recorder")
        record.waits = waits
        record.batches.let_go()

    def iterator_gone(self, key: int) -> None:
        """An iterator with this id has ended its life, and another one may get it."""
        if key == self._record.iterator:
            self._record.iterator, self._record.queue = 0, None


def work_out(record: Any, log: List[Any]) -> None:
    """log: what and when, in order; of a fetch also its end, its queue and its sizes (batch_sizes.py), of
    an update perhaps what its thread had in the step."""
    at = 0
    while at < len(log):
        plain = plain_steps(log, at, record.sizes.known)
        if plain is not None and record.borders.send_plain(plain):
            at += len(plain.times) * (len(plain.events) - 1)  # a fetch is two events
        else:
            _work_out_one(record, *log[at])
            at += 1


def plain_steps(log: List[Any], at: int, known: Any) -> Optional[PlainSteps]:
    """The plain steps of one size that stand there behind one another."""
    if log[at][0] != FETCHED:
        return None
    for codes, events in PLAIN.items():
        sizes, times = log[at][4], []  # type: Any, List[List[int]]
        for first in range(at, len(log) - len(codes) + 1, len(codes)):
            step = log[first : first + len(codes)]
            if tuple([one[0] for one in step]) != codes or not step[0][3].used or step[0][4] != sizes:
                break
            if len(step[-1]) > 2:  # its thread was measured
                break
            end = step[-1][1]
            times.append([step[0][1], step[0][2], *[one[1] for one in step[1:]], end])
        if times:
            return PlainSteps(events, known(sizes), times)
    return None


def _work_out_one(record: Any, what: int, now: int, *more: Any) -> None:
    note, batches = record.note, record.batches
    if what == FETCHED:
        end, queue, sizes = more
        note(INPUTS, now)
        queue.sizes.append(record.sizes.known(sizes))
        note(FETCHED, end)
    elif what == BACKWARDS:
        batches.backward()
        note(BACKWARDS, now)
    elif what == PASSED:
        note(LEAVES, now)
        if batches.waiting():  # fetched ahead: the next forward follows at once
            note(FORWARDS, now)
    elif what == UPDATED:
        note(LEAVES, now)
        record.borders.end_step(now, True, *more)
    else:
        note(what, now)
