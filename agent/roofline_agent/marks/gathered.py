"""Gathers what the ranks of this node send between two batches, as much of it as a batch holds. No I/O.

What does not fit, or what the server would not take, is left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import NamedTuple

from roofline_step.packets import ABSENT, StepForm

from ..ranks.new_names import KERNELS, TOO_MANY_NAMES, NewNames
from ..records import Call, Event, EventKind, KernelShape, Mark, MarkKind, Rank, Span, StepRows
from ..uplink.bounds import CALL_BYTES, EVENT_BYTES, MARK_BYTES, SPAN_BYTES, BatchRoom
from .packets import (
    MARK_KIND,
    SPANS_KIND,
    STEPS_KIND,
    ParsedCalls,
    ParsedSteps,
    parse_mark,
    parse_spans,
    parse_steps,
    possible_steps,
)
from .refusals import OUT_OF_RANGE

STEP_ENDS = (MarkKind.END, MarkKind.BORDER)
MAX_LAST_STEPS = 4096  # processes whose last step is kept


class Received(NamedTuple):
    """What the processes of this node have sent since the last batch."""

    marks: list[Mark]
    spans: list[Span]
    calls: list[Call]
    events: list[Event]
    steps: list[StepRows]


class Gathered:
    """The next batch's marks, spans, calls, steps and events; `take` hands each of them over once."""

    def __init__(self, rank_named: Callable[[Rank, str, int], Rank | None]) -> None:
        """rank_named(sender, role, index): the rank that a coordinator marks for; None: it must not."""
        self._rank_named = rank_named
        self._last_steps: dict[tuple[int, int, str], int] = {}  # that a process has finished
        self._new_kernels = NewNames(KERNELS)
        self._begin(users=1)

    def _begin(self, users: int) -> None:
        self.room = BatchRoom(users)
        self._received = Received([], [], [], [], [])
        self._shapes: set[KernelShape] = set()
        self._steps: dict[tuple[Rank, StepForm], list[bytes]] = {}
        self._covered: dict[Rank, tuple[int, int]] = {}
        self._refused: dict[tuple[Rank | None, str], int] = {}

    @property
    def is_half_full(self) -> bool:
        """Whether there is little room for more."""
        return self.room.is_half_full

    def take(self, now_ns: int, users: int) -> Received:
        """What was gathered since the last call; refusals and kernel coverage are summed into events. users:
        whose processes are connected, who share the next batch."""
        received, events = self._received, self._received.events
        for (rank, form), parts in self._steps.items():
            numbers, wrong = possible_steps(form, b"".join(parts)) if parts else (b"", 0)
            if numbers:
                received.steps.append(StepRows(rank, form, numbers))
            if wrong:
                self.refuse(OUT_OF_RANGE, rank, wrong)
        for rank, (begin, end) in self._covered.items():
            events.append(Event(EventKind.KERNELS_COVERED, begin, end, rank))
        for (of, text), count in self._refused.items():
            events.append(Event(EventKind.REFUSED, now_ns, now_ns, of, count, text))
        events += self.room.losses(now_ns)
        self._begin(users)
        return received

    def refuse(self, why: str, rank: Rank | None, count: int = 1) -> None:
        """Count what was refused, by one of the reasons in `refusals`. rank: whose it was; None: not known,
        and the reports of all jobs that are on this node say so."""
        self._refused[rank, why] = self._refused.get((rank, why), 0) + count

    def add_event(self, event: Event) -> None:
        self._received.events.append(event)

    def add_facts(self, rank: Rank, facts: Iterable[str], now_ns: int) -> None:
        for text in facts:
            if self.room.take_fact(text, rank.uid):
                self.add_event(Event(EventKind.FACT, now_ns, now_ns, rank, text=text))
            else:
                self.room.count_loss(rank, "facts")

    def add_records(self, rank: Rank, data: bytes) -> None:
        """Marks, spans and steps behind one another; a malformed one costs itself and what follows.

        Raises ValueError or struct.error for what is malformed.
        """
        at, finished = 0, ABSENT
        while at < len(data):
            if data[at] == MARK_KIND:
                at += self._add_mark(rank, data, at)
            elif data[at] == STEPS_KIND:
                parsed = parse_steps(data, at)
                if self._add_steps(rank, parsed):
                    # They stand form by form: what comes last may have been done before what stands first.
                    finished = max(finished, parsed.last)
                    self._has_finished(rank, finished)
                at += parsed.size
            elif data[at] == SPANS_KIND:
                at += self._add_spans(rank, data, at)
            else:
                raise ValueError("neither a mark nor spans nor steps")

    def add_calls(self, rank: Rank, parsed: ParsedCalls, shapes: Mapping[int, KernelShape]) -> None:
        """Add kernel calls. shapes: what the sender has described, by number."""
        count = len(parsed.kernels)
        new = {shapes[kernel] for kernel in set(parsed.kernels)} - self._shapes
        if not self._new_kernels.take(rank.uid, (shape[:6] for shape in new)):
            self.room.count_loss(rank, "kernels", count, TOO_MANY_NAMES)
            return
        described = sum(len(json.dumps(shape)) for shape in new)
        if not self.room.take_rows(EVENT_BYTES + CALL_BYTES * count + described, rank.uid):
            self.room.count_loss(rank, "kernels", count)
            return  # nor is their time claimed
        self._shapes |= new
        called = map(shapes.__getitem__, parsed.kernels)
        self._received.calls.extend(map(Call, repeat(rank), called, parsed.starts, parsed.durations))
        self._cover(rank, parsed.begin, parsed.through)

    def with_last_step(self, event: Event) -> Event:
        """The end of a rank with the last step that it finished: what it sent may be read after its end."""
        rank = event.rank
        if event.kind is not EventKind.RANK_EXITED or rank is None:
            return event
        return event._replace(step=self._last_steps.get((rank.pid, rank.start_ns, rank.key)))

    def _has_finished(self, rank: Rank, step: int) -> None:
        if rank.pid:  # of another node nobody here sees the end
            self._last_steps[rank.pid, rank.start_ns, rank.key] = step
            while len(self._last_steps) > MAX_LAST_STEPS:
                del self._last_steps[next(iter(self._last_steps))]

    def _cover(self, rank: Rank, begin_ns: int, end_ns: int) -> None:
        """All kernels of this stretch of time are known; it may continue the one before."""
        before = self._covered.get(rank)
        if before is not None and before[1] == begin_ns:
            begin_ns = before[0]
        elif before is not None:
            self.add_event(Event(EventKind.KERNELS_COVERED, *before, rank))
        self._covered[rank] = (begin_ns, end_ns)

    def _add_steps(self, rank: Rank, parsed: ParsedSteps) -> bool:
        """Add the steps of one form, all or none; whether they were added."""
        form, count = parsed.form, parsed.count
        spans = count * len(form.names)
        known = [self.room.take_span_name(name, rank.uid) for name in form.names]
        alike = self._steps.get((rank, form))
        if alike is None and self.room.take_form(rank.uid):
            alike = self._steps[rank, form] = []
        if (
            alike is not None
            and all(known)
            and self.room.take_rows(count * form.marks * MARK_BYTES + spans * SPAN_BYTES, rank.uid)
        ):
            alike.append(parsed.numbers)
            return True
        self.room.count_loss(rank, "marks", count * form.marks)
        self.room.count_loss(rank, "spans", spans)
        return False

    def _add_mark(self, rank: Rank, data: bytes, at: int) -> int:
        """Add the mark that is there in `data`; returns its size."""
        parsed = parse_mark(data, at)
        if not parsed.in_range:
            self.refuse(OUT_OF_RANGE, rank)
            return parsed.size
        dropped, time_ns = parsed.dropped, parsed.time_ns
        needed = MARK_BYTES + (len(parsed.phase.encode()) if parsed.phase else 0)
        if dropped:
            needed += EVENT_BYTES
        if not self.room.take_rows(needed, rank.uid):
            self.room.count_loss(rank, "marks", 1 + dropped)
            return parsed.size
        if dropped:
            self.add_event(Event(EventKind.LOST, time_ns, time_ns, rank, dropped, "marks"))
        marked = self._rank_named(rank, parsed.role, parsed.index) if parsed.role else rank
        if marked is not None:
            if parsed.kind in STEP_ENDS:
                self._has_finished(marked, parsed.step)
            self._received.marks.append(
                Mark(
                    rank=marked,
                    sender=rank,
                    kind=parsed.kind,
                    step=parsed.step,
                    examples=parsed.examples,
                    time_ns=time_ns,
                    phase=parsed.phase,
                    asynchronous=parsed.asynchronous,
                    like=parsed.like,
                )
            )
        return parsed.size

    def _add_spans(self, rank: Rank, data: bytes, at: int) -> int:
        """Add the spans that stand there in `data`, all or none; returns the size of their record."""
        parsed = parse_spans(data, at)
        count = len(parsed.which)
        names = map(parsed.names.__getitem__, parsed.which)
        columns = repeat(rank), names, parsed.begins, parsed.ends, parsed.bytes, parsed.counts
        spans = list(map(Span, *columns))
        known = [self.room.take_span_name(name, rank.uid) for name in parsed.names]
        if not all(known):
            spans = [span for which, span in zip(parsed.which, spans, strict=True) if known[which]]
        lost = count - len(spans)
        if self.room.take_rows(SPAN_BYTES * len(spans), rank.uid):
            self._received.spans.extend(spans)
        else:
            lost = count
        if lost:
            self.room.count_loss(rank, "spans", lost)
        return parsed.size
