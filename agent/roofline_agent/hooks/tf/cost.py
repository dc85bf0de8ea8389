"""TensorFlow: what the hooks cost a step, as the fact "cost.hooks_ns".

Of the steps, after the first ones, some are measured: their hooks say what they took. Calm steps are measured
where they are worked out.
"""

from __future__ import annotations

import time

from .. import Marker

COST_EVERY, COST_FROM = 32, 32  # one step in so many, from this one on

_now = time.monotonic_ns


class StepCost:
    """The mean over all steps that those measured stand for."""

    __slots__ = ("_all_spent_ns", "_measured", "_spent_ns", "measuring")

    def __init__(self) -> None:
        self.measuring = False  # the time that the hooks take in this step
        self._spent_ns = 0  # in this step, if it is measured
        self._all_spent_ns, self._measured = 0, 0  # in the steps that those measured stand for

    def spent(self, since_ns: int) -> None:
        """A hook has run since then, in a step that is measured."""
        self._spent_ns += _now() - since_ns

    def over(self, marker: Marker, number: int, since_ns: int) -> None:
        """Step `number` is over, and the hook of its call has run since then."""
        if self.measuring:
            self.add(marker, _now() - since_ns, COST_EVERY)
        self.measuring = number >= COST_FROM and number % COST_EVERY == 0

    def add(self, marker: Marker, spent_ns: int, steps: int) -> None:
        """The hooks took so much more in a step, which is over and stands for so many."""
        self._all_spent_ns += (self._spent_ns + spent_ns) * steps
        self._spent_ns, before = 0, self._measured
        self._measured += steps
        if before.bit_length() < self._measured.bit_length():  # each time that they are twice as many
            marker.fact("cost.hooks_ns", self._all_spent_ns // self._measured)
