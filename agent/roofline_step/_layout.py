"""Takes steps that differ in numbers only: what they have in common is packed once for all sent together.

Short steps are sent together, some 25 ms after the first of them ended: packing and sending a step amidst a
training takes many times as long as it does while code and data for it lie in the caches.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Callable, Optional, Sequence

from ._packets import ABSENT, StepForm
from ._sender import Sender

MOST_HELD = 64

Layout = Callable[[int, Optional[int], Sequence[int]], bool]


def layout(
    sender: Sender,
    kinds: Sequence[int],
    names: Sequence[str],
    places: Sequence[int],
    like: int = 0,
    counts: Sequence[int] = (),
) -> Layout:
    """send(step, examples, times) for steps that differ in numbers only. It returns False when it takes
    nothing; the step must be sent in another way then. times: also last, when the step ended.

    kinds: of the marks: a border, or begin and end. names: of the spans, without bytes. places: where in
    `times` stand the time of each mark, then begin and end of each span. counts: where there stand the counts
    of the last spans; the others are of one thing.
    """
    form = StepForm(len(kinds), tuple(names), len(counts), like)
    at = [*places, *counts]
    pick = itemgetter(*at) if len(at) > 1 else lambda times: (times[at[0]],)

    def send(step: int, examples: Optional[int], times: Sequence[int]) -> bool:
        if sender._socket is None or sender.dropped or sender.dropped_spans != sender._reported_spans:
            return False  # there is no agent, or drops have to be reported
        held = sender.held
        held.append((form, (step, ABSENT if examples is None else examples, *pick(times))))
        if times[-1] - sender.sent_ns >= sender.hold_ns or len(held) >= MOST_HELD:
            sender.sent_ns = times[-1]
            sender.send_held()
        return True

    return send
