"""Which numbers of a lineage's batches were kept. No I/O.

A lineage is a series of numbers that one process of an agent gives to its batches. Numbers may be left out,
come late and come twice: what is kept is known exactly, so that nothing else is acknowledged.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

MAX_GAPS = 256  # of one lineage; below those that are forgotten no number is taken any more
REMEMBERED = 128  # checksums of a lineage's last batches: twice what an agent has on its way


class Numbers(NamedTuple):
    """What was kept of one lineage: everything up to `highest` but `gaps` (first and last, ascending)."""

    highest: int = 0
    gaps: tuple[tuple[int, int], ...] = ()
    forgotten: int = 0  # up to here nothing is known

    def has(self, sequence: int) -> bool:
        """Whether this number was kept, or may have been."""
        if sequence > self.highest:
            return False
        at = bisect_right(self.gaps, (sequence, self.highest)) - 1
        return at < 0 or sequence > self.gaps[at][1]

    def with_kept(self, sequence: int) -> Numbers:
        """These numbers and one more that was kept, which `has` did not have."""
        if sequence == self.highest + 1:
            return self._replace(highest=sequence)
        if sequence > self.highest:
            return self._replace(
                highest=sequence, gaps=(*self.gaps, (self.highest + 1, sequence - 1))
            )._bounded()
        at = bisect_right(self.gaps, (sequence, self.highest)) - 1
        first, last = self.gaps[at]
        pieces = [(a, b) for a, b in ((first, sequence - 1), (sequence + 1, last)) if a <= b]
        return self._replace(gaps=(*self.gaps[:at], *pieces, *self.gaps[at + 1 :]))._bounded()

    def _bounded(self) -> Numbers:
        if len(self.gaps) <= MAX_GAPS:
            return self
        return self._replace(gaps=self.gaps[1:], forgotten=self.gaps[0][1])


class Checksums:
    """CRC-32 of the last batches of a lineage, by their numbers."""

    def __init__(self) -> None:
        self._ring = array("Q", bytes(8 * REMEMBERED))

    def add(self, sequence: int, crc: int) -> None:
        self._ring[sequence % REMEMBERED] = (sequence & 0xFFFFFFFF) << 32 | crc

    def of(self, sequence: int) -> int | None:
        """None: it is not remembered."""
        held = self._ring[sequence % REMEMBERED]
        return held & 0xFFFFFFFF if held >> 32 == sequence & 0xFFFFFFFF else None


def gaps_text(gaps: Sequence[tuple[int, int]]) -> str:
    """Gaps as the inbox keeps them: "4-9 12-12"."""
    return " ".join(f"{first}-{last}" for first, last in gaps)


def parse_gaps(text: str) -> tuple[tuple[int, int], ...]:
    """The inverse of `gaps_text`."""
    pairs = (one.split("-") for one in text.split())
    return tuple((int(first), int(last)) for first, last in pairs)
