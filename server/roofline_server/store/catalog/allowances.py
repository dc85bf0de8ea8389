"""How much everyone may bring of what is kept for good: so much at once, and as much again over a day. No
I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

DAY_S = 86_400.0


class Allowances:
    """One thread at a time asks about the same one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: s."""
        self._clock = clock
        self._left: dict[Hashable, tuple[float, float]] = {}  # how much, and when

    def take(self, who: Hashable, most: int, new: int = 1) -> bool:
        """Whether someone who may bring `most` in a day may bring this now; what may not be costs nothing."""
        now = self._clock()
        left, since = self._left.get(who, (float(most), now))
        left = min(most, left + (now - since) * most / DAY_S)
        if new > left:
            return False
        self._left[who] = left - new, now
        return True

    def give_back(self, who: Hashable) -> None:
        """Give back what was taken and not brought after all."""
        left, since = self._left[who]
        self._left[who] = left + 1, since
