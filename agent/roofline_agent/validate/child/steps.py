"""Steps of known length, marked with roofline_step as a training would."""

from __future__ import annotations

import time

import roofline_step

from .done import Quantities, amounts

STEPS = 20
SHORTEST_S, LONGER_S = 0.01, 0.001


class StepWork:
    """Steps whose times the process also takes by a clock of its own."""

    def __init__(self) -> None:
        self._next = 0

    def prepare(self) -> bool:
        """The first mark connects to the agent, which takes its time."""
        if self._next:
            return False
        self._step(SHORTEST_S)
        return True

    def do(self) -> Quantities:
        total = sum(self._step(SHORTEST_S + LONGER_S * at) for at in range(STEPS))
        roofline_step.send_held()
        return amounts(steps=STEPS, step_ns=total)

    def _step(self, seconds: float) -> int:
        # The raw clock is not the one that marks are made with: it is not steered by NTP.
        clock, raw = time.clock_gettime_ns, time.CLOCK_MONOTONIC_RAW
        with roofline_step.step(self._next):
            begin = clock(raw)
            time.sleep(seconds)
            took = clock(raw) - begin
        self._next += 1
        return took
