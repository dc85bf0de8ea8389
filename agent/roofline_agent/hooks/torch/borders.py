"""PyTorch: borders of steps that were seen but are not handed over yet: held back while it is not sure that
they are borders, or deferred, to be handed over together. Reads no clock: the caller passes the time.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Hashable, List, NamedTuple, Optional, Sequence

from .. import Marker
from ..marker import DEFERRED_NS, SHORT_NS
from ..signals import raise_again
from .between_steps import TRACE
from .calm import PlainSteps
from .cost import is_before_sampled, next_before_sampled
from .phases import Span


class WaitingBorder(NamedTuple):
    """A border, and what was known of its step when it was seen."""

    events: int  # how many of them are before it
    time_ns: int
    examples: Optional[int]
    shapes: Hashable
    counts: Any = None  # of the training thread (StepCounts of roofline_step)
    spans: Sequence[Span] = ()  # in addition to those that follow from its events


def in_place_of(before: List[WaitingBorder], new: WaitingBorder) -> WaitingBorder:
    """The last of several borders of which only the last one is one: its step has the examples of all."""
    if not before:
        return new
    old = before[-1]
    if not new.examples and old.examples != 0:
        return new._replace(examples=old.examples, shapes=old.shapes)
    if not old.examples or new.examples is None:
        return new
    known = old.shapes is not None and new.shapes is not None
    return new._replace(
        examples=new.examples + old.examples, shapes=(old.shapes, new.shapes) if known else None
    )


class Borders:
    """The borders of a recorder that are not handed over yet."""

    __slots__ = (
        *("_events", "_marker", "_record", "_steps"),
        *("defer_to", "deferred", "handed_ns", "may_defer", "short", "uncertain"),
    )

    def __init__(self, record: Any, marker: Marker) -> None:
        self._record, self._marker = record, marker
        self._steps, self._events = record.steps, record.steps.events
        self.may_defer = False
        self.reset()

    def reset(self) -> None:
        """A process begins with none."""
        self.uncertain: List[WaitingBorder] = []  # perhaps these are borders
        self.deferred: List[WaitingBorder] = []  # borders that are sure, handed over together
        self.defer_to: Optional[int] = None  # borders of steps from this on are handed over at once
        self.handed_ns = 0  # end of the last step that was
        self.short = False  # the last step was

    def defer(self) -> None:
        """From now on borders may wait, if the marker has them handed over at the end of the process."""
        defers = getattr(self._marker, "defers", None)
        self.may_defer = defers is not None and defers(self.hand_over)

    def head(self) -> int:
        """At which of the events the step that goes on begins."""
        border = self.uncertain[-1] if self.uncertain else self.deferred[-1] if self.deferred else None
        return 0 if border is None else border.events

    def settled(self) -> None:
        """The events so far were made into spans, and are gone. After hand_over()."""
        self.uncertain = [border._replace(events=0) for border in self.uncertain]

    def hold(self, now: int) -> None:
        """A border may be here; of several the last one is."""
        if self.deferred:
            self.hand_over()
        batches = self._record.batches
        border = WaitingBorder(len(self._events), now, batches.take(), batches.shapes)
        self.uncertain = [in_place_of(self.uncertain, border)]
        self._marker.note()

    def hold_another(self, now: int) -> None:
        """A border may have been at `now`, beside those that are held."""
        batches = self._record.batches
        examples = batches.take()
        self.uncertain.append(
            WaitingBorder(bisect_right(self._steps.times, now), now, examples, batches.shapes)
        )

    def commit(self) -> None:
        """The borders that are held are borders."""
        if self.deferred:
            self.hand_over()
        held, self.uncertain = self.uncertain, []
        if not held:
            return
        held[0] = held[0]._replace(spans=self._steps.joined.take())
        over, number = self._marker.over, self._steps.sent
        self._send([one._replace(counts=over(number + at, one.time_ns)) for at, one in enumerate(held)])
        self._begin_next()

    def end_step(self, now: int, noted: bool = False, counts: Any = None) -> None:
        """The border between two steps is here, or was at `now` and was only noted, with these counts."""
        record, steps = self._record, self._steps
        try:
            examples, shapes = record.batches.take(), record.batches.shapes
        except Exception:
            raise_again()
            examples = shapes = None
        deferred, account = self.deferred, record.account
        number = steps.sent + len(deferred)
        if not noted and (account.on or number >= account.next):
            counts = self._marker.over(number, now)
        # Together short steps take a fraction of the time, as code and data for it lie in the caches.
        before = deferred[-1].time_ns if deferred else steps.border_ns
        self.short = now - before < SHORT_NS
        defers = self.short and now - self.handed_ns < DEFERRED_NS
        if defers and (record.between.stretches or self.uncertain):
            defers = False
        if defers:
            defers = number < (self.find_defer_to() if self.defer_to is None else self.defer_to)
        spans = steps.take_spans()
        deferred.append(WaitingBorder(len(self._events), now, examples, shapes, counts, spans))
        if not defers:
            self.hand_over()
            self.handed_ns, self.defer_to = now, None
        self._begin_next()

    def find_defer_to(self) -> int:
        """The next step whose border is to be handed over at once; defer_to until that was."""
        record = self._record
        if not self.may_defer or record.by_hand is not None or record.by_horovod:
            self.defer_to = -1
        else:
            sent = self._steps.sent
            sampled = sent if record.sampled else next_before_sampled(sent)
            self.defer_to = min(self._marker.deferred_to(), sampled)
        return self.defer_to

    def hand_over(self) -> None:
        """Send the steps whose borders were deferred."""
        record = self._record
        if record.calm is not None:
            record.calm_steps.catch_up()
        deferred, self.deferred = self.deferred, []
        phases = self._steps.phases
        behind, phases.spans = phases.spans, []  # of the step that goes on
        self._send(deferred)
        phases.spans += behind
        if len(deferred) > 1:
            self._marker.flush()  # in one packet

    def _send(self, borders: List[WaitingBorder]) -> None:
        """Send the steps that ended at these borders."""
        record, steps = self._record, self._steps
        first = steps.sent
        steps.send_all(borders)
        stall = self._marker.take_stall()
        if stall is not None:
            record.between.add(TRACE, stall[0], stall[1], certain=True)
        for number, border in enumerate(borders, first):
            if record.sampled:
                record.report_cost(number, border.time_ns)
            elif is_before_sampled(number):
                record.sampled = True

    def send_plain(self, steps: PlainSteps) -> bool:
        """Send these, which followed on one another; False: not all is known that is needed to send them
        together."""
        if self.deferred:
            self.hand_over()
        record = self._record
        before = steps.times[-2][-1] if len(steps.times) > 1 else self._steps.border_ns
        if record.sampled or record.batches.pending() or not self._steps.send_plain(steps):
            return False
        self.handed_ns = self._steps.border_ns
        self.short = self.handed_ns - before < SHORT_NS
        self.defer_to = None
        return True

    def _begin_next(self) -> None:
        """A step is over, and another one begins."""
        record = self._record
        record.waits = 0
        if record.turns.round:
            record.turns.over()
