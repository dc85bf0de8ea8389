"""What turns of trainings that stand still while another runs say about each other. No I/O."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

AFTER_RESUME = 2  # steps of a turn that are left out: one has the stop in it, and caches are cold
LEAST = 4  # steps of a turn that can be used
RESAMPLES, CONFIDENCE = 4000, 0.95


class Turn(NamedTuple):
    """One training ran and all others were stopped. side: 0 is the bare training."""

    side: int
    begin_ns: int
    end_ns: int
    cpu_ns: int = 0  # of the training
    beside_ns: int = 0  # of wrapper, agent and server


class Steps(NamedTuple):
    """What the training's own clock says of one turn."""

    mean: float
    median: float
    cpu: float  # CPU seconds of a step, all processes
    beside: float  # of it wrapper, agent and server


def steps_of(turn: Turn, ends_ns: Sequence[int]) -> Steps | None:
    """The steps that began and ended in a turn; None where they are too few to be used. ends_ns: of all
    steps of this training."""
    inside = [end for end in ends_ns if turn.begin_ns < end <= turn.end_ns]
    used = inside[AFTER_RESUME - 1 :]
    if len(used) < LEAST + 1:
        return None
    lengths = [(end - begin) / 1e9 for begin, end in itertools.pairwise(used)]
    cpus = [ns / 1e9 / len(inside) for ns in (turn.cpu_ns + turn.beside_ns, turn.beside_ns)]
    return Steps((used[-1] - used[0]) / 1e9 / (len(used) - 1), statistics.median(lengths), *cpus)


def against_neighbours(sides: Sequence[int], values: Sequence[float | None]) -> dict[int, list[float]]:
    """By side, what each of its turns takes more than the bare turns right before and after it: 0.01 is 1 %.

    sides, values: of the turns in their order; a turn without a value has no ratio, nor has its neighbour.
    """
    found: dict[int, list[float]] = {}
    for at in range(1, len(sides) - 1):
        before, value, after = values[at - 1 : at + 2]
        is_pair = sides[at] != 0 and sides[at - 1] == sides[at + 1] == 0
        if is_pair and before is not None and value is not None and after is not None:
            found.setdefault(sides[at], []).append(2 * value / (before + after) - 1)
    return found


class Interval(NamedTuple):
    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:+.2%} ({self.low:+.2%} to {self.high:+.2%})"


def interval(groups: Sequence[Sequence[float]], seed: int = 1) -> Interval:
    """Median of all ratios, and its percentile bootstrap interval (Efron and Tibshirani 1993, chapter 13).

    groups: the ratios of each pair of processes. Groups are drawn first and ratios within them then (Davison
    and Hinkley 1997, section 3.8), for two processes differ by where their memory lies, whatever is done.
    """
    draw = random.Random(seed)
    known = [group for group in groups if group]

    def resampled() -> float:
        drawn = draw.choices(known, k=len(known))
        return statistics.median(ratio for group in drawn for ratio in draw.choices(group, k=len(group)))

    medians = sorted(resampled() for _ in range(RESAMPLES))
    tail = int((1 - CONFIDENCE) / 2 * RESAMPLES)
    every = [ratio for group in known for ratio in group]
    return Interval(statistics.median(every), medians[tail], medians[-1 - tail])


def interval_of_means(pairs: Sequence[tuple[float, float]], seed: int = 1) -> Interval:
    """Mean of the seconds over mean of the firsts, less 1, and its percentile bootstrap interval over pairs:
    for costs that come in lumps, which a median of ratios would not see."""
    draw = random.Random(seed)

    def more(some: Sequence[tuple[float, float]]) -> float:
        return sum(second for _, second in some) / sum(first for first, _ in some) - 1

    found = sorted(more(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    tail = int((1 - CONFIDENCE) / 2 * RESAMPLES)
    return Interval(more(pairs), found[tail], found[-1 - tail])


def verdict(found: Interval, limit: float) -> str:
    if found.high < limit:
        return f"below {limit:.1%}"
    if found.low > limit:
        return f"above {limit:.1%}"
    return "not settled"
