"""How many names of ranks and kernels, and processes, the users of a node may bring in a day: the server
keeps each for good, and refuses a node's batches when there are too many. No I/O."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable

# Half of what the server takes of a node in a day (store/catalog/name_ids.py).
RANKS, PROCESSES, KERNELS = 8_192, 65_536, 32_768
DAY_S = 86_400.0
TOO_MANY_NAMES = "of more names than a user has for a day"


class NewNames:
    """The new names of one kind. A user may bring no more than is left then for the others: one who brings
    all that can be has half, the next a quarter, and so on."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._began = clock()
        self._before: set[int] = set()  # hashes, of the day before
        self._known: set[int] = set()
        self._used: Counter[int] = Counter()  # by user, today

    def take(self, user: int, names: Iterable[Hashable]) -> bool:
        """Whether a user may bring all of these; what was brought today or the day before costs nothing."""
        if self._clock() - self._began >= DAY_S:
            self._began = self._clock()
            self._before, self._known = self._known, set()
            self._used.clear()
        found = {hash(name) for name in names} - self._known
        if not found:
            return True
        new = found - self._before if len(self._known) < 4 * self._most else found
        if self._used[user] + len(new) > self._most - self._used.total() - len(new):
            return not new
        self._used[user] += len(new)
        self._known |= found
        return True
