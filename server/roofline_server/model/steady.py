"""Which steps speak for a training: those that are neither warm-up nor disturbed by something that is no
step.

Means and rates over all steps of a short run are mostly about its first ones. What is left out is counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..records import Bools, Floats

TRACED = "traced"
WARM_UP = "warm-up"
AFTER_BREAK = "after a break"

RUNNING = 5  # steps of the running median
NEAR = 3.0  # median deviations from the median of the later half
LEAST_DEVIATION = 0.01  # of the median, where the later steps are all but equal
MOST_WARM_UP = 0.2  # of the steps; a longer change is one of load, and no warm-up


class LeftOut(NamedTuple):
    """Steps that are left out for one reason."""

    reason: str
    steps: int
    seconds: float


class Steady(NamedTuple):
    which: Bools  # (steps,)
    left_out: list[LeftOut]  # a step counts under its first reason only


def steady(duration: Floats, apart: Bools | None = None, traced: Bools | None = None) -> Steady:
    """Of the steps of one rank in order of time.

    duration: seconds. traced: steps that a profiler recorded, which slows them. apart: steps that did not
    begin when the one before ended; of these the first and those that are far longer than others (caches are
    cold, workers of the loader start) are left out.
    """
    reasons = {} if traced is None else {TRACED: traced}
    reasons[WARM_UP] = _leading(len(duration), warm_up(duration))
    if apart is not None:
        reasons[AFTER_BREAK] = apart & (duration > _usual(duration)[1])
    left: Bools = np.zeros(len(duration), np.bool_)
    found = []
    for reason, steps in reasons.items():
        new = steps & ~left
        left |= new
        if new.any():
            found.append(LeftOut(reason, int(new.sum()), float(duration[new].sum())))
    return Steady(~left, found)


def warm_up(duration: Floats) -> int:
    """How many leading steps are warm-up: the first, and those until the running median has come down to
    within NEAR median deviations of the median of the later half; at most MOST_WARM_UP of all."""
    steps = len(duration)
    if steps < 2:
        return 0
    most = max(1, int(MOST_WARM_UP * steps))
    slow = duration[: most + RUNNING - 1]
    if len(slow) < RUNNING:
        return most
    running = np.median(np.lib.stride_tricks.sliding_window_view(slow, RUNNING), axis=1)
    settled = np.flatnonzero(running <= _usual(duration)[1])
    first = int(settled[0]) if len(settled) else most
    # A running median comes down while up to two of its first steps are slow still.
    while first < most and duration[first] > _usual(duration)[1]:
        first += 1
    return max(1, min(first, most))


def _usual(duration: Floats) -> tuple[float, float]:
    """Median of the later half, and up to where a step is like these."""
    later = duration[len(duration) // 2 :]
    if not len(later):
        return np.nan, np.nan
    middle = float(np.median(later))
    deviation = float(np.median(np.abs(later - middle)))
    return middle, middle + max(NEAR * deviation, LEAST_DEVIATION * middle)


def _leading(steps: int, first: int) -> Bools:
    which: Bools = np.arange(steps) < first
    return which
