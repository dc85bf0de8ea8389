"""Which batches are sent next: new ones first, and alongside them the backlog, as much as is on its way soon.

What waited when the stream began is the backlog; it is sent oldest first. What is made from then on is new.
A process that ends must be known before whatever came after it: new batches wait for the part of the backlog
up to the last in which one may have ended. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..records import Batch, EventKind, Rank
from .pending import MAX_SEQUENCE

WINDOW = 64  # batches on their way
FIRST_OLD = 1  # of the backlog, at first: on a slow link a few take longer than new ones may wait
SLOW_S = 0.5  # an ack that takes longer: what is on its way holds up what is new
SHARE = 8  # new ones, after which one of the backlog goes even if it holds up others


class Wanted(NamedTuple):
    """At most `limit` batches with numbers above `after`, up to `through`."""

    after: int
    limit: int
    through: int = MAX_SEQUENCE


class Order:
    """The order in which batches go on one stream. Times are of any clock that only grows, s."""

    def __init__(self, after: int, newest: int = MAX_SEQUENCE, in_order_through: int = 0) -> None:
        """after: what the server has. newest: of the backlog; MAX_SEQUENCE: all goes in order, as servers
        want it that acknowledge no single batch. in_order_through: no new one overtakes those up to here."""
        self._divided = newest < MAX_SEQUENCE
        self._old_after, self._new_after, self._newest_old = after, newest, newest
        self._in_order_through = in_order_through
        self._sent: dict[int, float] = {}  # on their way -> since when
        self._most_old = FIRST_OLD if self._divided else WINDOW
        self._is_slow = False
        self._new_since_old = 0

    @property
    def backlog_is_over(self) -> bool:
        """Whether the server has all of it."""
        return self._old_after >= self._newest_old and not self._old_on_their_way()

    def _old_on_their_way(self) -> int:
        return sum(sequence <= self._newest_old for sequence in self._sent)

    def new(self) -> Wanted:
        """To be asked first. Leaves room for one of the backlog."""
        may_overtake = self._old_after >= min(self._in_order_through, self._newest_old)
        room = self._room() - (not self.backlog_is_over and not self._old_on_their_way())
        return Wanted(self._new_after, max(0, room) if self._divided and may_overtake else 0)

    def old(self) -> Wanted:
        """On a slow link they use the time that new ones leave, and some of theirs."""
        is_busy = len(self._sent) > self._old_on_their_way()
        if self._is_slow and is_busy and self._new_since_old < SHARE:
            return Wanted(self._old_after, 0, self._newest_old)
        room = min(self._room(), self._most_old - self._old_on_their_way())
        is_left = self._old_after < self._newest_old
        return Wanted(self._old_after, max(0, room) if is_left else 0, self._newest_old)

    def _room(self) -> int:
        return WINDOW - len(self._sent)

    def no_more_old(self) -> None:
        """Nothing of the backlog is left to be sent."""
        if self._divided:
            self._old_after = self._newest_old

    def sends(self, sequence: int, now_s: float) -> None:
        self._sent[sequence] = now_s
        if sequence <= self._newest_old:
            self._old_after, self._new_since_old = sequence, 0
        else:
            self._new_after = sequence
            self._new_since_old += 1

    def on_their_way(self, through: int = MAX_SEQUENCE) -> list[int]:
        """Batches that are on their way, up to this number."""
        return [sequence for sequence in self._sent if sequence <= through]

    def arrived(self, sequences: Iterable[int], now_s: float) -> list[int]:
        """Which of these were on their way: the server has them, or refuses them."""
        found = [sequence for sequence in sequences if sequence in self._sent]
        for sequence in found:
            took_s = now_s - self._sent.pop(sequence)
            if self._divided and sequence <= self._newest_old:
                self._is_slow = took_s > SLOW_S
                most = self._most_old // 2 if self._is_slow else self._most_old + 1
                self._most_old = min(WINDOW // 2, max(1, most))
        return found


class Ends:
    """Which of a node's batches, in order, have processes that ended."""

    def __init__(self) -> None:
        self._before: frozenset[Rank] = frozenset()

    def has(self, batch: Batch) -> bool:
        """Whether a process has ended in this batch, or since the one before."""
        before, self._before = self._before, frozenset(batch.ranks)
        exits = any(event.kind is EventKind.RANK_EXITED for event in batch.events)
        return exits or not before <= self._before
