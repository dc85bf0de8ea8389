"""Decides when agents are asked to sample less often, and when as often as before. No I/O.

One step at a time: a server busy for HOLD_S asks for less, waits SETTLE_S for that to show, and takes a step
back after CALM_S of calm.
"""

from __future__ import annotations

from typing import NamedTuple

from .hysteresis import LoadLevel

FACTORS = (1, 2, 4)  # by how much sampling intervals are longer at each level
MOST_NS = 10_000_000_000  # no interval is made longer than that
HOLD_S, SETTLE_S, CALM_S = 2.0, 10.0, 30.0
HIGH_QUEUE, LOW_QUEUE = 0.5, 0.1
HIGH_UNSEALED, LOW_UNSEALED = 0.75, 0.5
HIGH_LAG_S, LOW_LAG_S = 1.0, 0.25


class ServerLoad(NamedTuple):
    """How busy the server is at a moment."""

    is_full: bool = False  # agents wait for a sealing
    queue: float = 0.0  # share of what may wait to be committed
    unsealed: float = 0.0  # share of what may wait to be sealed
    lag_s: float = 0.0  # by which the event loop is late

    @property
    def is_high(self) -> bool:
        return (
            self.is_full
            or self.queue >= HIGH_QUEUE
            or self.unsealed >= HIGH_UNSEALED
            or self.lag_s >= HIGH_LAG_S
        )

    @property
    def is_low(self) -> bool:
        return not (
            self.is_full or self.queue > LOW_QUEUE or self.unsealed > LOW_UNSEALED or self.lag_s > LOW_LAG_S
        )


def next_level(level: LoadLevel, load: ServerLoad, now_s: float) -> LoadLevel:
    """What is asked for after a look at the load."""
    level = level.observed(load.is_high, load.is_low, now_s)
    if level.may_rise(now_s, HOLD_S, SETTLE_S):
        return level.at(min(level.level + 1, len(FACTORS) - 1), now_s)
    if level.may_fall(now_s, CALM_S):
        return level.at(max(level.level - 1, 0), now_s)
    return level


def interval_ns(own_ns: int, level: int) -> int:
    """The sampling interval of an agent whose own is own_ns; never shorter than that."""
    return max(own_ns, min(MOST_NS, own_ns * FACTORS[level]))
