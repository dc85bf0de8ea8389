"""Decides when agents are asked to sample less often, and when as often as before. No I/O.

One step at a time, with hysteresis: a server busy for HOLD_S asks for less, waits SETTLE_S for that to
show, and takes a step back after CALM_S of calm.
"""

from __future__ import annotations

from typing import NamedTuple

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


class SamplingLevel(NamedTuple):
    """What agents are asked for. Times are of any clock that only grows, s."""

    level: int = 0  # of FACTORS
    changed_s: float = float("-inf")
    high_since_s: float | None = None
    low_since_s: float | None = None


def next_level(sampling: SamplingLevel, load: ServerLoad, now_s: float) -> SamplingLevel:
    """What is asked for after a look at the load."""
    high_since = (
        (sampling.high_since_s if sampling.high_since_s is not None else now_s) if load.is_high else None
    )
    low_since = (sampling.low_since_s if sampling.low_since_s is not None else now_s) if load.is_low else None
    sampling = sampling._replace(high_since_s=high_since, low_since_s=low_since)
    if high_since is not None and sampling.level < len(FACTORS) - 1:
        if now_s - high_since >= HOLD_S and now_s - sampling.changed_s >= SETTLE_S:
            return SamplingLevel(sampling.level + 1, now_s, high_since)
    elif low_since is not None and sampling.level and now_s - low_since >= CALM_S:
        return SamplingLevel(sampling.level - 1, now_s, None, now_s)
    return sampling


def interval_ns(own_ns: int, level: int) -> int:
    """The sampling interval of an agent whose own is own_ns; never shorter than that."""
    return max(own_ns, min(MOST_NS, own_ns * FACTORS[level]))
