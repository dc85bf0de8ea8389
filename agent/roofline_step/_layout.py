"""Takes steps that differ in numbers only: what they have in common is packed once for all sent together.

Short steps are sent together, some 25 ms after the first of them ended: packing and sending a step in the
middle of a training takes many times as long as it does while code and data for it are in the caches.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Callable, Optional, Sequence, Tuple

from ._sender import Sender
from .packets import ABSENT, StepForm

MOST_HELD = 64


class Layout:
    """Steps that differ in numbers only. What takes them returns False when it takes nothing; they must be
    sent in another way then. times: also last, when the step ended."""

    __slots__ = ("_form", "_pick", "_sender")

    def __init__(self, sender: Sender, form: StepForm, places: Sequence[int]) -> None:
        """places: where in `times` the numbers of a step stand that the form has."""
        self._sender = sender
        self._form = form
        first = places[0]
        self._pick: Callable[[Sequence[int]], Tuple[int, ...]] = (
            itemgetter(*places) if len(places) > 1 else lambda times: (times[first],)
        )

    def __call__(self, step: int, examples: Optional[int], times: Sequence[int]) -> bool:
        """Send a step, or hold it for a moment to send it with others."""
        sender = self._sender
        if not sender.can_hold:
            return False
        held = sender.held
        held.append((self._form, (step, ABSENT if examples is None else examples, *self._pick(times))))
        if times[-1] - sender.sent_ns >= sender.hold_ns or len(held) >= MOST_HELD:
            sender.sent_ns = times[-1]
            sender.send_held()
        return True

    def several(self, first: int, examples: Optional[int], steps: Sequence[Sequence[int]]) -> bool:
        """Send steps that followed on one another, the first of this number: of each its `times`."""
        sender = self._sender
        if not sender.can_hold:
            return False
        known, pick = ABSENT if examples is None else examples, self._pick
        for at in range(0, len(steps), MOST_HELD):
            numbered = enumerate(steps[at : at + MOST_HELD], first + at)
            sender.held.extend([(self._form, (step, known, *pick(times))) for step, times in numbered])
            sender.send_held()
        sender.sent_ns = steps[-1][-1]
        return True


def layout(
    sender: Sender,
    kinds: Sequence[int],
    names: Sequence[str],
    places: Sequence[int],
    like: int = 0,
    counts: Sequence[int] = (),
) -> Layout:
    """For steps that differ in numbers only.

    kinds: of the marks: a border, or begin and end. names: of the spans, without bytes. places: where in
    `times` stand the time of each mark, then begin and end of each span. counts: where there stand the counts
    of the last spans; the others are of one thing.
    """
    return Layout(sender, StepForm(len(kinds), tuple(names), len(counts), like), [*places, *counts])
