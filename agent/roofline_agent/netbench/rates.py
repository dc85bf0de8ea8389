"""Medians, quantiles and rates of repeats. Pure: times in, numbers out."""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from .messages import Quantiles

REPEATS = 5


class Rates(NamedTuple):
    """Something a second. each: of consecutive windows; whole: of all of them together.

    What a window is handed by the one before it, as when the receiver stood still for a moment and then reads
    what had piled up, is in the whole but once.
    """

    each: list[float]
    whole: float


def over(windows: Sequence[tuple[float, float]]) -> Rates:
    """Rates of (amount, seconds) of each window, of which there is at least one."""
    amount, seconds = (sum(column) for column in zip(*windows, strict=True))
    return Rates([one / passed for one, passed in windows], amount / seconds)


def spread(values: Sequence[float]) -> Quantiles:
    """Quantiles by linear interpolation between the repeats, of which there is at least one."""
    ordered = sorted(values)
    p5, p25, p50, p75, p95 = (quantile(ordered, share) for share in (0.05, 0.25, 0.5, 0.75, 0.95))
    return Quantiles(p5, p25, p50, p75, p95, len(ordered))


def quantile(ordered: Sequence[float], share: float) -> float:
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def medians(times: Sequence[float], repeats: int = REPEATS) -> list[float]:
    """Consecutive groups of times, as equal as can be, and the median of each; fewer groups where there are
    fewer times."""
    groups = min(repeats, len(times))
    borders = [len(times) * at // groups for at in range(groups + 1)]
    return [statistics.median(times[a:b]) for a, b in itertools.pairwise(borders)]


def rates(ends: Sequence[Sequence[int]], begin_ns: int, repeats: int = REPEATS) -> list[float]:
    """How many things a second ended, in as many consecutive windows as asked for.

    `ends` has, of each of those that worked at once, the moments in ns at which something ended. Between two
    of them work went on evenly: so a window may begin and end in the middle of a long message. The first
    begins when all have had an end behind `begin_ns`, the last ends when one of them stops. Fewer windows
    where somebody has fewer ends than windows; none where somebody has no two.
    """
    # The returns are the cases that have no window at all; the rest is one formula over the borders.
    later = [list(one[bisect.bisect_left(one, begin_ns) :]) for one in ends]
    if not later or any(len(one) < 2 for one in later):
        return []
    first, last = max(one[0] for one in later), min(one[-1] for one in later)
    if last <= first:
        return []
    windows = min(repeats, *(len(one) - 1 for one in later))
    borders = [first + (last - first) * at / windows for at in range(windows + 1)]
    counts = [sum(_ended(one, border) for one in later) for border in borders]
    width_s = (last - first) / windows / 1e9
    return [(after - before) / width_s for before, after in itertools.pairwise(counts)]


def _ended(ends: Sequence[int], moment: float) -> float:
    """How many had ended by a moment between the first and the last of them, parts of one counted too."""
    at = bisect.bisect_right(ends, moment)
    if at >= len(ends):
        return float(len(ends))
    before, after = ends[at - 1], ends[at]
    return at + (moment - before) / (after - before)
