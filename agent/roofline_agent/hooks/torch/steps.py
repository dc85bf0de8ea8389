"""PyTorch: what the training thread did since the last border that was handed over, and the steps that are
sent of it. Imports no torch and reads no clock.

Events are a byte and a time each, and are made into spans (phases.py) at the border of their step; a
step whose order of events is known is sent by a prepared layout (alike.py).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, List, Optional, Sequence

from .. import Marker
from .alike import AlikeSteps
from .between_steps import Between
from .borders import WaitingBorder
from .calm import PlainSteps
from .joined import JoinedCollectives
from .phases import BACKWARDS, FORWARDS, MAX_SPANS, OPTIMIZES, WORKS, Phases, Span, thinned

MOST_SPANS = 4096  # that are kept; a process may fetch and communicate without ever stepping
LONGEST = 64  # events of a step that may be like others


class TorchSteps:
    """The steps of one process."""

    __slots__ = (  # they lie together: between two steps the training pushes all of this out of the caches
        *("at", "event", "events", "times"),
        *("_alike", "_fresh", "_marker", "between", "border_ns", "joined", "phases", "sent"),
    )

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        # Only ever these two objects: the hooks that run in every step append to both, the event first.
        self.events = bytearray()
        self.times: List[int] = []
        self.event, self.at = self.events.append, self.times.append
        self._alike = AlikeSteps(marker)
        self.reset()

    def reset(self) -> None:
        """A process begins with nothing."""
        self.sent = 0  # steps
        self.border_ns = 0  # when the last of them ended
        self.between = Between()
        self.joined, self.phases = JoinedCollectives(), Phases()
        self._fresh = True  # nothing was open at the last border
        self._drop_events()

    def _drop_events(self) -> None:
        self.events.clear()
        self.times.clear()

    @property
    def has_many_spans(self) -> bool:
        """Whether there are so many spans that they are to be sent before the border."""
        return len(self.phases.spans) > MOST_SPANS

    def settle(self) -> None:
        """Make spans of the events so far."""
        if len(self.events) == len(self.times):
            self.phases.process(self.events, self.times)
        else:  # an exception of a signal's handler came between the two appends
            self.phases.abandon()
        self._drop_events()
        self._fresh = False

    def forget(self, name: str, since: int) -> None:
        """What was recorded as `name` since then was no part of training. After settle()."""
        phases = self.phases
        phases.spans = [span for span in phases.spans if span[0] is not name or span[1] < since]
        phases.drop_forward()

    def begin_at(self, begin: int) -> None:
        """What was before that is of no step. After settle()."""
        self.phases.spans = [span for span in self.phases.spans if span[2] > begin]
        self.joined.forget_until(begin)

    def take_spans(self) -> Sequence[Span]:
        """Spans of the step that is over in addition to what follows from its events."""
        spans: Sequence[Span] = self.joined.take() if self.joined.open else ()
        if self.phases.spans:
            spans, self.phases.spans = [*self.phases.spans, *spans], []
        return spans

    def send_plain(self, steps: PlainSteps) -> bool:
        """Send them together; False: not all is known that is needed for it."""
        examples, shapes = steps.sizes
        kind = self._alike.kind((steps.events, shapes))
        if kind is None or not kind.layout or self.times or self.phases.spans or self.joined.open:
            return False
        if not self._fresh or not self._marker.send_layouts(kind.layout, self.sent, examples, steps.times):
            return False
        self.sent += len(steps.times)
        self.border_ns = steps.times[-1][-1]
        return True

    def send_all(self, borders: Sequence[WaitingBorder]) -> None:
        """Send the steps that ended at these borders, in order."""
        done, marker = 0, self._marker
        for border in borders:
            marker.more = border is not borders[-1]
            at = max(0, border.events - done)
            events, times = self.events[at:], self.times[at:]
            del self.events[at:], self.times[at:]
            self._send(border)
            self.events.extend(events)
            self.times.extend(times)
            done = border.events

    def _send(self, border: WaitingBorder) -> None:
        """Send the step that ended there, of the events so far."""
        counts = border.counts
        begin = self._begin(border.time_ns) if self.between.stretches else None
        if begin is not None:
            counts = None  # they hold what lay between
        if begin is not None or border.spans or not self._send_alike(border):
            self._send_any(border, counts, begin)
        self.border_ns = border.time_ns
        self.sent += 1

    def _send_alike(self, border: WaitingBorder) -> bool:
        """Send a step with nothing in it but its phases, if their order is known; False: nothing was sent."""
        events, times, counts = bytes(self.events), self.times, border.counts
        kind = self._alike.kind((events, border.shapes))
        if kind is None or not kind.layout or not self._fresh or self.phases.spans:
            return False
        times.append(border.time_ns)
        if (
            self._marker.send_layout(kind.layout, self.sent, border.examples, times)
            if counts is None
            else self._alike.send_counted(kind, events, self.sent, border.examples, times, counts)
        ):
            self._drop_events()
            return True
        times.pop()
        return False

    def _send_any(self, border: WaitingBorder, counts: Any, begin: Optional[int]) -> None:
        """Send a step of any kind."""
        events = bytes(self.events)
        kind = self._alike.kind((events, border.shapes))
        whole = self._fresh and len(events) <= LONGEST
        try:  # whatever fails, the border must be sent, or two steps would become one
            self.send_spans([*border.spans, *(() if counts is None else counts.spans())])
        except Exception:
            self._marker.failed("torch_steps")
        self._fresh = self.phases.clean()
        like = self._alike.seen(kind, events, border.shapes) if whole and self._fresh else 0
        self._marker.border(self.sent, border.examples, border.time_ns, like, begin)

    def _begin(self, now: int) -> Optional[int]:
        """When the step that ends now began; None: with the border before it, as most do. What lies between
        the two is made into spans, and its events go."""
        events, times, phases = self.events, self.times, self.phases
        starts = [at for at in map(events.find, (BACKWARDS, OPTIMIZES, WORKS)) if at >= 0]
        limit = times[min(starts)] if starts and len(events) == len(times) else now
        found = self.between.before(self.sent, self.border_ns, limit, now)
        if not found:
            return None
        begin = found[-1][2]
        cut = bisect_left(times, begin)
        phases.process(events[:cut], times[:cut])
        forward = phases.drop_forward()
        phases.abandon()
        del events[:cut], times[:cut]
        self._fresh = True
        if forward:  # the batch was fetched before
            events.insert(0, FORWARDS)
            times.insert(0, begin)
        phases.spans = [one for one in phases.spans if not (one[0].startswith("phase.") and one[1] < begin)]
        phases.spans += [(kind, since, until, None, 1) for kind, since, until in found]
        return begin

    def send_spans(self, more: Sequence[Span]) -> None:
        """Hand the marker the spans of the events so far, and `more`; it sends them with the next border."""
        if self.times:
            self.settle()
        spans, self.phases.spans = self.phases.spans, []
        spans.extend(more)
        self._marker.spans(spans if len(spans) <= MAX_SPANS else thinned(spans))
