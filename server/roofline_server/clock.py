"""Puts every node on the server's clock from ping round trips, as NTP does (RFC 5905, section 8).

One exchange gives server send t0, node receive t1, node send t2, server receive t3. The node's offset is
((t0 - t1) + (t3 - t2)) / 2, wrong by at most half the round trip t3 - t0 - (t2 - t1). Queues only ever make a
round trip longer, so of each stretch of time the exchange with the shortest one is kept, as a knot; between
knots the offset is interpolated, which follows the drift of the node's clock.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .records import Ints, Knot

STRETCH_NS = 10_000_000_000
NEIGHBOURS = 6  # stretches on either side that a stretch is judged by


def exchange(t0: int, t1: int, t2: int, t3: int) -> Knot | None:
    """The knot one exchange gives; None when its times cannot be true (negative round trip)."""
    rtt = (t3 - t0) - (t2 - t1)
    if rtt < 0 or t2 < t1:
        return None
    return Knot(node_ns=(t1 + t2) // 2, offset_ns=((t0 - t1) + (t3 - t2)) // 2, rtt_ns=rtt)


class OffsetFilter:
    """Keeps the best exchange of each stretch; feed exchanges in order, take knots as they are settled."""

    def __init__(self, stretch_ns: int = STRETCH_NS) -> None:
        self._stretch_ns = stretch_ns
        self._best: Knot | None = None
        self._since = 0

    def feed(self, knot: Knot) -> Knot | None:
        """Take an exchange; returns a knot when it should be (re)stored.

        The first of all is returned at once, so that a clock exists from the first exchange on.
        """
        first = self._best is None
        if first or knot.node_ns - self._since > self._stretch_ns:
            self._best, self._since = knot, knot.node_ns
            return knot
        assert self._best is not None
        if knot.rtt_ns < self._best.rtt_ns:
            self._best = knot
            return knot
        return None


class NodeClock:
    """Maps one node's time to the server's. Without knots the mapping is by arrival and its error unknown."""

    def __init__(self, knots: Sequence[Knot], arrival_offset_ns: int | None = None) -> None:
        """knots: exchanges of one node; per stretch only the best are used. arrival_offset_ns: fallback."""
        best = _best_by_stretch(knots)
        if not best and arrival_offset_ns is not None:
            self._at = np.zeros(1, np.int64)
            self._offset = np.array([arrival_offset_ns], np.int64)
        else:
            self._at = np.array([k.node_ns for k in best] or [0], np.int64)
            self._offset = np.array([k.offset_ns for k in best] or [0], np.int64)
        self.error_ns: float | None = max(k.rtt_ns for k in best) / 2 if best else None

    def to_server(self, node_ns: Ints) -> Ints:
        """Server times of node times, both int64 ns; exact up to the offset's own error."""
        base = self._offset[0]
        moved = np.interp(node_ns, self._at, (self._offset - base).astype(np.float64))
        moved_ns: Ints = node_ns + base + np.rint(moved).astype(np.int64)
        return moved_ns


def _best_by_stretch(knots: Sequence[Knot]) -> list[Knot]:
    best: dict[int, Knot] = {}
    for knot in knots:
        stretch = knot.node_ns // STRETCH_NS
        if stretch not in best or knot.rtt_ns < best[stretch].rtt_ns:
            best[stretch] = knot
    kept = [best[stretch] for stretch in sorted(best)]
    return _without_outliers(kept)


def _without_outliers(knots: list[Knot]) -> list[Knot]:
    # A stretch in which every exchange was slow says less than its neighbours do.
    kept = []
    for at, knot in enumerate(knots):
        near = knots[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]
        if knot.rtt_ns <= 4 * min(k.rtt_ns for k in near) + 200_000:
            kept.append(knot)
    return kept
