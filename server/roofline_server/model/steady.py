"""Which steps represent a training: those that are neither warm-up nor disturbed by something that is not a
step.

Means and rates over all steps of a short run are mostly about its first ones. What is left out is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from roofline.phrases import AFTER_BREAK

from ..records import Bools, Floats, Ints

TRACED = "traced"
WARM_UP = "warm-up"

RUNNING = 5  # steps of the running median
NEAR = 3.0  # median deviations from the median of the later half
LEAST_DEVIATION = 0.01  # of the median, where the later steps are all but equal
CELLS = 1 << 16  # steps x ranks that are looked at together: they stay in the cache of a CPU
MOST_WARM_UP = 0.2  # of the steps: a longer change may be one of load


class LeftOut(NamedTuple):
    """Steps that are left out for one reason."""

    reason: str
    steps: int
    seconds: float


class Steady(NamedTuple):
    which: Bools  # (steps,)
    left_out: list[LeftOut]  # a step counts under its first reason only


def steady_of_each(
    durations: Sequence[Floats], apart: Sequence[Bools | None], traced: Sequence[Bools | None]
) -> list[Steady]:
    """Of each of many ranks, whose steps are in order of time.

    durations: seconds. traced: steps that a profiler recorded, which slows them. apart: steps that did not
    begin when the one before ended; of these the first and those that are far longer than others (caches are
    cold, workers of the loader start) are left out. Ranks with equally many steps are looked at together:
    numpy takes as long to begin with the steps of one rank as with those of a hundred.
    """
    alike: dict[int, list[int]] = {}
    for number, one in enumerate(durations):
        alike.setdefault(len(one), []).append(number)
    found: dict[int, Steady] = {}
    for steps, numbers in alike.items():
        at_once = max(1, CELLS // max(1, steps))
        for first in range(0, len(numbers), at_once):
            some = numbers[first : first + at_once]
            table = np.stack([durations[number] for number in some])
            usual = _usual(table)[1]
            warm = _warm_up(table, usual).tolist()
            for number, leading, most in zip(some, warm, usual.tolist(), strict=True):
                found[number] = _steady(durations[number], apart[number], traced[number], leading, most)
    return [found[number] for number in range(len(durations))]


def _steady(
    duration: Floats, apart: Bools | None, traced: Bools | None, leading: int, usual: float
) -> Steady:
    """leading: steps of warm-up; usual: up to where a step is like most, seconds."""
    reasons = {} if traced is None else {TRACED: traced}
    reasons[WARM_UP] = _leading(len(duration), leading)
    if apart is not None and np.count_nonzero(apart):
        reasons[AFTER_BREAK] = apart & (duration > usual)
    left: Bools = np.zeros(len(duration), np.bool_)
    found = []
    for reason, steps in reasons.items():
        new = steps & ~left
        left |= new
        if np.count_nonzero(new):
            found.append(LeftOut(reason, int(new.sum()), float(duration[new].sum())))
    return Steady(~left, found)


def warm_up(duration: Floats) -> int:
    """How many leading steps are warm-up: the first, and those until the running median has come down to
    within NEAR median deviations of the median of the later half; at most MOST_WARM_UP of all."""
    table = duration[None]
    return int(_warm_up(table, _usual(table)[1])[0])


def _warm_up(duration: Floats, usual: Floats) -> Ints:
    """How many leading steps of each rank are warm-up. duration: (ranks, steps); usual: as of `_usual`."""
    ranks, steps = duration.shape
    if steps < 2:
        return np.zeros(ranks, np.int64)
    most = max(1, int(MOST_WARM_UP * steps))
    slow = duration[:, : most + RUNNING - 1]
    if slow.shape[1] < RUNNING:
        return np.full(ranks, most)
    running = np.sort(np.lib.stride_tricks.sliding_window_view(slow, RUNNING, axis=1))[:, :, RUNNING // 2]
    settled = running <= usual[:, None]
    first = np.where(settled.any(axis=1), settled.argmax(axis=1), most)
    # A running median comes down while up to two of its first steps are slow still.
    like_usual = (duration[:, :most] <= usual[:, None]) & (np.arange(most) >= first[:, None])
    first = np.where(like_usual.any(axis=1), like_usual.argmax(axis=1), most)
    found: Ints = np.maximum(1, first)
    return found


def _usual(duration: Floats) -> tuple[Floats, Floats]:
    """Of each rank the median of the later half, and up to where a step is like these. duration: (ranks,
    steps)."""
    later = duration[:, duration.shape[1] // 2 :]
    if not later.shape[1]:
        none = np.full(len(duration), np.nan)
        return none, none
    middle = np.median(later, axis=1)
    deviation = np.median(np.abs(later - middle[:, None]), axis=1)
    return middle, middle + np.maximum(NEAR * deviation, LEAST_DEVIATION * middle)


def _leading(steps: int, first: int) -> Bools:
    which: Bools = np.arange(steps) < first
    return which
