"""Decides how long agents are asked to gather before they close a batch. No I/O.

A batch costs about the same regardless of its contents, and one thread of Python takes all of them. So there
is a number of batches a second that agents together must not exceed; and if batches still take much of the
time, or the event loop is late, they gather longer, one step at a time, with hysteresis.
"""

from __future__ import annotations

from typing import NamedTuple

from .hysteresis import LoadLevel

LENGTHS_S = (0.0, 2.0, 3.0, 4.0, 6.0, 8.0)  # at each level; 0: as long as they like
OWN_S = 1.0  # what they like, at the least
MOST_PER_S = 1000.0  # batches of all agents
FEWEST_PER_S = 100.0  # fewer are not why a server is busy
HIGH_SHARE, LOW_SHARE = 0.6, 0.4  # of the time, that batches take
HIGH_LAG_S, LOW_LAG_S = 0.2, 0.1
HOLD_S, SETTLE_S, CALM_S = 3.0, 6.0, 30.0


class BatchLoad(NamedTuple):
    """What batches take of a server."""

    streams: int = 0  # open now
    share: float = 0.0  # of the time since the last look, of one core
    lag_s: float = 0.0  # by which the event loop is late
    newcomers: int = 0  # of the streams, that came lately: they bring names, and want their first pings

    @property
    def weight(self) -> int:
        """In streams that have been there for a while."""
        return self.streams + self.newcomers


def next_length(level: LoadLevel, load: BatchLoad, now_s: float) -> LoadLevel:
    """What is asked for after a look: at once what the number of streams needs, a step more for a busy
    server, a step less only after calm."""
    level = level.observed(is_high(load, level.level), is_low(load, level.level), now_s)
    wanted = max(level.level, least_level(load.weight))
    if level.may_rise(now_s, HOLD_S, SETTLE_S):
        wanted = max(wanted, min(level.level + 1, len(LENGTHS_S) - 1))
    elif level.may_fall(now_s, CALM_S):
        wanted = level.level - 1
    return level.at(wanted, now_s)


def least_level(streams: int) -> int:
    """The lowest at which so many streams send no more than MOST_PER_S; the last where there is none."""
    levels = range(len(LENGTHS_S))
    return next((level for level in levels if per_second(streams, level) <= MOST_PER_S), levels[-1])


def is_high(load: BatchLoad, level: int) -> bool:
    """Whether fewer batches would help a server that asks for this level."""
    is_busy = load.share >= HIGH_SHARE or load.lag_s >= HIGH_LAG_S
    return is_busy and per_second(load.streams, level) >= FEWEST_PER_S


def is_low(load: BatchLoad, level: int) -> bool:
    """Whether the level below would do."""
    if level <= least_level(load.weight):
        return False
    then = load.share * gathered_s(level) / gathered_s(level - 1)
    return then <= LOW_SHARE and load.lag_s <= LOW_LAG_S


def per_second(streams: int, level: int) -> float:
    """Batches of so many streams."""
    return streams / gathered_s(level)


def gathered_s(level: int) -> float:
    """How long an agent gathers."""
    return max(OWN_S, LENGTHS_S[level])
