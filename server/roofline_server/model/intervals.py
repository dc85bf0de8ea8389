"""How sure a mean over steps is, though steps next to each other are alike.

The moving-block bootstrap resamples stretches of steps instead of steps (Künsch, 1989). The variance that it
gives a mean has a closed form, that of the means of all stretches (Lahiri, Resampling Methods for Dependent
Data, 2003, section 2.5), so nothing is drawn here. A block is at least twice as long as values stay alike;
Student's quantile for the few blocks there are widens the interval. A lasting change in a run, such as a
fault that sets in or grows, is not chance: it is separated first, and blocks cover what varies around it.
"""

from __future__ import annotations

from math import atan, ceil, cos, hypot, pi, sin, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..records import Floats

LEAST_BLOCKS = 4
LEAST_STEPS = 8  # fewer say nothing
ENOUGH_STEPS = 40  # fewer say little
SHOWN = 0.95  # of intervals that are shown

# Of a step: two runs of one training, and a prediction and the run that it is of, differ by less in seven of
# ten pairs (docs/accuracy.md).
OF_ANOTHER_RUN = 0.05
# Of what a change gives: what else it changes, such as how long others wait for a CPU, is in no model.
OF_A_GAIN = 0.3

MOSTLY = 0.5  # of how values vary: a change that makes up more is one for good
FARTHEST = 8  # a level that lasts for less than one in so many steps is no change for good

ROUNDING = 1e-18  # of the sum of squares: values that differ by no more are equal


class Interval(NamedTuple):
    """A mean, where it lies 95 times in 100, and what it exceeds but for the chance that was asked for."""

    mean: float
    low: float
    high: float
    surely: float


def interval(values: Floats, chance: float = 0.01) -> Interval:
    """The interval of the mean of values in order of time. chance: that the true mean is below `surely`."""
    mean, error, freedom = mean_and_error(values)
    if np.isinf(error):
        return Interval(mean, -np.inf, np.inf, -np.inf)
    half = student(1 - (1 - SHOWN) / 2, freedom) * error
    return Interval(mean, mean - half, mean + half, mean - student(1 - chance, freedom) * error)


def around(mean: float, error: float, steps: int, chance: float) -> Interval:
    """The interval of something whose error is known, that of blocks of the root of so many steps."""
    freedom = max(3, int(np.sqrt(steps)) - 1)
    half = student(1 - (1 - SHOWN) / 2, freedom) * error
    return Interval(mean, mean - half, mean + half, mean - student(1 - chance, freedom) * error)


def error_beyond_others(errors: Floats, rank: int) -> float:
    """Error of what one has more than the median of the others. The median of so many normal values varies by
    sqrt(pi / 2) as much as their mean."""
    others = np.delete(errors, rank)
    return hypot(float(errors[rank]), sqrt(pi / 2 * float((others**2).mean()) / len(others)))


def mean_and_error(values: Floats) -> tuple[float, float, int]:
    """Mean, its standard error (infinite with too few values), and the degrees of freedom of that."""
    steps = len(values)
    if steps < LEAST_STEPS:
        return float(values.mean()) if steps else 0.0, np.inf, 0
    mean, values = float(values.mean()), beside_change(values)
    block = block_length(values)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    of_blocks = (sums[block:] - sums[:-block]) / block
    # Stretches of one run vary about its own mean, not about the true one.
    variance = float(np.var(of_blocks)) / (1 - block / steps)
    return mean, sqrt(block / steps * variance), steps // block - 1


def beside_change(values: Floats) -> Floats:
    """What is left of values less their mean when a change for good is taken out: a straight line upwards, or
    a higher level from some step on, whichever tells more, where it makes up MOSTLY of how they vary. What is
    over again by the end may have been chance."""
    steps = len(values)
    centred: Floats = values - values.mean()
    spread = float(centred @ centred)
    if steps < ENOUGH_STEPS or spread <= ROUNDING * float(values @ values):
        return centred
    at = np.arange(steps) - (steps - 1) / 2
    slope = max(0.0, float(at @ centred) / float(at @ at))
    of_line = slope**2 * float(at @ at)
    before = np.arange(1, steps)
    explained = np.minimum(0.0, np.cumsum(centred)[:-1]) ** 2 * steps / (before * (steps - before))
    edge = steps // FARTHEST
    first = edge + int(np.argmax(explained[edge - 1 : steps - edge]))  # step of the new level
    if max(of_line, float(explained[first - 1])) <= MOSTLY * spread:
        return centred
    if of_line >= explained[first - 1]:
        return centred - slope * at
    return np.concatenate([level - level.mean() for level in (centred[:first], centred[first:])])


def block_length(values: Floats) -> int:
    """Steps in a block: at least the root of how many there are, at least twice as long as they stay
    alike."""
    steps = len(values)
    asked = ceil(max(sqrt(steps), 2 * correlation_time(values)))
    return int(np.clip(asked, 1, max(1, steps // LEAST_BLOCKS)))


def correlation_time(values: Floats) -> float:
    """Steps over which values are alike: 1 + 2 x the sum of autocorrelations, up to where the sum of two
    neighbours is no longer positive (Geyer, 1992, initial positive sequence)."""
    steps = len(values)
    centred = values - values.mean()
    spread = float(centred @ centred)
    if steps < 4 or spread <= ROUNDING * float(values @ values):
        return 1.0
    size = 1 << (2 * steps - 1).bit_length()
    power = np.abs(np.fft.rfft(centred, size)) ** 2
    alike = np.fft.irfft(power, size)[: steps // 2] / spread
    pairs = alike[: len(alike) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    return max(1.0, float(2 * pairs[: ends[0] if len(ends) else len(pairs)].sum() - 1))


def student(probability: float, freedom: int) -> float:
    """Quantile of Student's distribution. Exact to 1e-9 below 60 degrees of freedom, by bisection of the
    finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4; else by their expansion 26.7.5."""
    z = NormalDist().inv_cdf(probability)
    if freedom >= 60:
        first = (z**3 + z) / 4
        second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
        third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
        return z + first / freedom + second / freedom**2 + third / freedom**3
    low, high = 0.0, 1.0
    inside = abs(2 * probability - 1)
    while _within(high, freedom) < inside:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < inside else (low, middle)
    return high if probability >= 0.5 else -high


def _within(t: float, freedom: int) -> float:
    """Chance of a value between -t and t."""
    angle = atan(t / sqrt(freedom))
    odd = freedom % 2
    term = cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for n in range(2 if odd else 1, freedom - 1, 2):
        term *= cos(angle) ** 2 * n / (n + 1)
        total += term
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total


def of_another_run(predicted: float, low: float, high: float, step: float) -> tuple[float, float]:
    """Ends of the interval of another run's mean step, where something of this run is fixed; all s. low,
    high: what this run's own mean leaves open of the predicted one. step: mean of this run, which fixing
    does not make longer."""
    best, worst = of_changed_run(predicted, low, high, step)
    return best, min(step, worst)


def of_changed_run(predicted: float, low: float, high: float, step: float) -> tuple[float, float]:
    """Ends of the interval of another run's mean step, s, in which something else is different, and which may
    be longer."""
    apart = OF_ANOTHER_RUN * max(step, predicted), OF_A_GAIN * (step - predicted)
    best, worst = hypot(predicted - low, *apart), hypot(high - predicted, *apart)
    return max(0.0, predicted - best), predicted + worst
