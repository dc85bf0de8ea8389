"""Decides how long agents are asked to gather before they close a batch. No I/O.

A batch costs about the same whatever is in it, and one thread of Python takes all of them. So what they
would take of its time is estimated from the number of streams and from what a batch cost lately; agents
gather for as long as that is too much. An event loop that is late although it should not be asks for one
step more.
"""

from __future__ import annotations

from typing import NamedTuple

OWN_S = 1.0  # that agents gather at the least when nobody asks
HOLDS_S = (0.0, 2.0, 3.0, 4.0, 6.0, 8.0)  # at each level; 0: as long as they like
MOST_SHARE = 0.4  # of the time, that batches may take: the rest is for peaks, questions and sealing
LEAST_SHARE = 0.1  # that they must take for others to have less to wait for when they are fewer
DOWN_SHARE = 0.8  # of MOST_SHARE, at which a lower level is enough
# Of a batch, s of CPU time: before anything was measured, what is believed, and the newest look's weight.
TYPICAL_S, LEAST_S, MOST_S, WEIGHT = 0.0008, 0.0001, 0.002, 0.2
FEWEST = 100  # batches at a look that says anything of their cost
HIGH_LAG_S, LOW_LAG_S = 0.2, 0.1
HOLD_S, SETTLE_S, CALM_S = 2.0, 10.0, 30.0


class BatchLoad(NamedTuple):
    """What batches took since the last look."""

    streams: int = 0  # open now
    batches: int = 0
    cpu_s: float = 0.0  # of the threads that take them
    lag_s: float = 0.0  # by which the event loop is late


class Holding(NamedTuple):
    """What agents are asked for. Times are of any clock that only grows, s."""

    level: int = 0  # of HOLDS_S
    cost_s: float = TYPICAL_S
    changed_s: float = float("-inf")
    late_since_s: float | None = None
    low_since_s: float | None = None  # since when a lower level would do

    @property
    def seconds(self) -> float:
        return HOLDS_S[self.level]


def next_holding(holding: Holding, load: BatchLoad, now_s: float) -> Holding:
    """What is asked for after a look: at once what the streams need, a step more for a late loop, and less
    only after calm."""
    cost_s = _cost_s(holding.cost_s, load)
    is_late = load.lag_s >= HIGH_LAG_S and share(load.streams, cost_s, 0) >= LEAST_SHARE
    late_since = (holding.late_since_s if holding.late_since_s is not None else now_s) if is_late else None
    holding = holding._replace(cost_s=cost_s, late_since_s=late_since)
    needed = needed_level(load.streams, cost_s, MOST_SHARE)
    if late_since is not None and now_s - late_since >= HOLD_S and now_s - holding.changed_s >= SETTLE_S:
        needed = max(needed, min(holding.level + 1, len(HOLDS_S) - 1))
    if needed > holding.level:
        return Holding(needed, cost_s, now_s, late_since)
    lower = needed_level(load.streams, cost_s, DOWN_SHARE * MOST_SHARE)
    if lower >= holding.level or load.lag_s > LOW_LAG_S:
        return holding._replace(low_since_s=None)
    low_since = holding.low_since_s if holding.low_since_s is not None else now_s
    if now_s - low_since >= CALM_S:
        return Holding(lower, cost_s, now_s)
    return holding._replace(low_since_s=low_since)


def share(streams: int, cost_s: float, level: int) -> float:
    """Of the time, that batches of so many streams take."""
    return streams * cost_s / max(OWN_S, HOLDS_S[level])


def needed_level(streams: int, cost_s: float, most_share: float) -> int:
    """The lowest at which batches take no more than that; the last where none is."""
    levels = range(len(HOLDS_S))
    return next((level for level in levels if share(streams, cost_s, level) <= most_share), levels[-1])


def _cost_s(before_s: float, load: BatchLoad) -> float:
    if load.batches < FEWEST:
        return before_s
    newest_s = min(MOST_S, max(LEAST_S, load.cpu_s / load.batches))
    return before_s + WEIGHT * (newest_s - before_s)
