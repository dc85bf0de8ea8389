"""In which of many ranks' stretches of time moments lie."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..records import Bools, Floats, Ints
from .kernels import merge

# rank -> stretches of server time whose calls count (begin, end); None: all of the rank's calls.
Stretches = Mapping[int, tuple[Ints, Ints] | None]


class StretchIndex:
    """Finds the stretch that a moment of a rank lies in.

    Ranks and moments are joined to one number, so that one search finds the stretch of any rank's moment.
    """

    def __init__(self, stretches: Stretches) -> None:
        self._ranks = np.array(sorted(stretches), np.int64)
        merged = {r: merge(s[0].astype(np.int64), s[1].astype(np.int64)) for r, s in stretches.items() if s}
        found = [s for s in merged.values() if len(s[0])]
        first = min((int(begin[0]) for begin, _ in found), default=0)
        last = max((int(end[-1]) for _, end in found), default=0)
        # Beyond both ends there is a moment for all that is outside.
        self._origin, self._shift = first - 1, 0
        while ((last - first + 3) >> self._shift) * (len(self._ranks) + 1) >= 2**62:
            self._shift += 1
        self._span = ((last - first + 2) >> self._shift) + 1
        begins, ends = [], []
        for place, rank in enumerate(self._ranks.tolist()):
            whole = np.array([place * self._span], np.int64), np.array([(place + 1) * self._span], np.int64)
            begin, end = whole if stretches[rank] is None else (self._of(place, b) for b in merged[rank])
            begins.append(begin)
            ends.append(end)
        self._counts = [len(begin) for begin in begins]
        self._begin, self._end = (np.concatenate(s) if s else np.zeros(0, np.int64) for s in (begins, ends))

    def _of(self, place: int | Ints, moments: Ints) -> Ints:
        within = np.clip((moments - self._origin) >> self._shift, 0, self._span - 1)
        found: Ints = place * self._span + within
        return found

    def spread(self, numbers: Mapping[int, Floats]) -> Floats:
        """One number per stretch, given of each rank in order of time; 1 for ranks without any.

        Stretches of a rank that has numbers must lie apart.
        """
        each = zip(self._ranks.tolist(), self._counts, strict=True)
        return np.concatenate([numbers.get(rank, np.ones(count)) for rank, count in each])

    def know(self, rank: Ints) -> Bools:
        """Which of these are ranks that stretches were given of."""
        return np.isin(rank, self._ranks)

    def find(self, rank: Ints, moments: Ints) -> tuple[Ints, Bools]:
        """(number of the stretch, whether it is inside) of each; stretches count by rank, then by time."""
        if not len(self._begin):
            return np.zeros(len(rank), np.int64), np.zeros(len(rank), np.bool_)
        place = np.minimum(np.searchsorted(self._ranks, rank), len(self._ranks) - 1)
        keys = self._of(place, moments)
        at = np.searchsorted(self._begin, keys, side="right") - 1
        inside = (at >= 0) & (keys < self._end[at]) & (self._ranks[place] == rank)
        return at, inside
