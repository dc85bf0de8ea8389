"""A level that rises after a while of high load, and falls after calm. No I/O."""

from __future__ import annotations

from typing import NamedTuple


class LoadLevel(NamedTuple):
    """What agents are asked for, as a number. Times are of any clock that only grows, s."""

    level: int = 0
    changed_s: float = float("-inf")
    high_since_s: float | None = None
    low_since_s: float | None = None  # since when the level below would do

    def observed(self, is_high: bool, is_low: bool, now_s: float) -> LoadLevel:
        """After a look at the load."""
        return self._replace(
            high_since_s=_since(self.high_since_s, is_high, now_s),
            low_since_s=_since(self.low_since_s, is_low, now_s),
        )

    def may_rise(self, now_s: float, hold_s: float, settle_s: float) -> bool:
        """Whether the load has been high for hold_s, and what was asked last has had settle_s to show."""
        since = self.high_since_s
        return since is not None and now_s - since >= hold_s and now_s - self.changed_s >= settle_s

    def may_fall(self, now_s: float, calm_s: float) -> bool:
        """Whether the level below would have done for calm_s."""
        return self.low_since_s is not None and now_s - self.low_since_s >= calm_s

    def at(self, level: int, now_s: float) -> LoadLevel:
        """Another level, or the same."""
        return self if level == self.level else LoadLevel(level, now_s, self.high_since_s)


def _since(before_s: float | None, holds: bool, now_s: float) -> float | None:
    if not holds:
        return None
    return now_s if before_s is None else before_s
