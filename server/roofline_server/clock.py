"""Puts a node on the server's clock by ping round trips, with a bound on how far wrong that can be.

One exchange gives server send t0, node receive t1, node send t2, server receive t3 (RFC 5905, section 8). No
message arrives before it was sent, so the node's offset (server time less node time) was at least t0 - t1 at
t1 and at most t3 - t2 at t2, however the delay was shared between both ways (Cristian 1989). Both sides are
carried to other moments by what is known of the rate at which the offset changes, widening as they go; at any
moment the highest lower and the lowest upper bound hold (the intersection of Marzullo 1984). The offset is
taken to be in their middle, and half their distance is the bound on its error.

What is known of the rate: its mean over a long baseline, from the bounds at both ends of it; that it never
differs by more than WANDER from its mean over another time; and that a mean is never beyond RATE_LIMIT.
Where exchanges contradict that, a clock stood still or was set between them (a suspended node, a paused
virtual machine): each side is judged by itself, and between them anything from one offset to the other is
possible. A jump that such a rate could explain goes unseen.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .records import Bools, ClockSample, Floats, Ints

# PHI of RFC 5905, its frequency tolerance of a clock: how far the rate at one time may be from the mean over
# another, as quartz warms up and is tuned.
WANDER = 15e-6
# NTP (MAXFREQ in RFC 5905) and Linux tune a clock by 500 ppm at most, and here are two of them.
RATE_LIMIT = 1000e-6
ROUNDING_NS = 2.0


class NodeClock:
    """Maps one node's time to the server's. Without samples it does so by arrival, its error unknown."""

    def __init__(self, samples: Sequence[ClockSample] | Ints, arrival_offset_ns: int | None = None) -> None:
        """samples: exchanges of one node, in any order. arrival_offset_ns: used where there are none."""
        rows = np.array(samples, np.int64).reshape(-1, 3)
        self.is_measured = len(rows) > 0
        if not self.is_measured:
            rows = np.array([(0, arrival_offset_ns or 0, 0)], np.int64)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        # Differences fit into doubles to the nanosecond, UNIX times do not.
        self._begin, self._base = int(rows[0, 0]), int(rows[0, 1])
        self._pieces = _pieces(_Bounds.of(rows, self._begin, self._base))
        self._line = _line(self._pieces)

    def to_server(self, node_ns: Ints) -> Ints:
        """Server times of node times, both int64 ns; see `error_at` for how exact."""
        moved = self._along(self._line.middle, self._pieces[0].rate, self._pieces[-1].rate, node_ns)
        moved_ns: Ints = node_ns + self._base + np.rint(moved).astype(np.int64)
        return moved_ns

    def error_at(self, node_ns: Ints) -> Floats:
        """How far wrong `to_server` can be at these moments, ns; infinite when nothing was measured."""
        if not self.is_measured:
            return np.full(len(node_ns), np.inf)
        return self._along(self._line.error, -self._pieces[0].spread, self._pieces[-1].spread, node_ns)

    def worst_error(self, begin_ns: int, end_ns: int) -> float | None:
        """The largest `error_at` of a stretch of node time, ns; None when nothing was measured."""
        if not self.is_measured:
            return None
        ends = self.error_at(np.array([begin_ns, end_ns], np.int64))
        # The error is straight between the points of the line: nowhere larger than at one of them.
        inside = (self._line.at > begin_ns - self._begin) & (self._line.at < end_ns - self._begin)
        return float(np.concatenate([ends, self._line.error[inside]]).max())

    def to_node(self, server_ns: Ints) -> Ints:
        """Node times of server times: the inverse of `to_server`, but for roundings."""
        at = (server_ns - self._base - self._begin).astype(np.float64)
        moved = self._line.at + self._line.middle
        before = np.minimum(at - moved[0], 0) / (1 + self._pieces[0].rate)
        after = np.maximum(at - moved[-1], 0) / (1 + self._pieces[-1].rate)
        found: Ints = np.rint(np.interp(at, moved, self._line.at) + before + after).astype(np.int64)
        return found + self._begin

    def _along(self, values: Floats, slope_before: float, slope_after: float, node_ns: Ints) -> Floats:
        at, line = (node_ns - self._begin).astype(np.float64), self._line.at
        found: Floats = np.interp(at, line, values)
        early, late = at < line[0], at > line[-1]
        found[early] += (at[early] - line[0]) * slope_before
        found[late] += (at[late] - line[-1]) * slope_after
        return found


# Around a stretch of time: what lies on either side of a job is asked for, too.
AROUND_NS = 120_000_000_000
ALIKE_NS = 1_000


def needed(samples: Ints, begin_ns: int, end_ns: int) -> Ints:
    """Of a node's samples those that make the same clock from begin_ns to end_ns, node times; maybe all where
    it was set. samples: as `NodeClock` takes them; what is returned is in order of time."""
    samples = samples[np.argsort(samples[:, 0], kind="stable")]
    whole = NodeClock(samples)
    first, last = begin_ns - AROUND_NS, end_ns + AROUND_NS
    kept = (samples[:, 0] >= first) & (samples[:, 0] <= last)
    # The last one until then, and the first since: nobody should look for more.
    kept[max(0, int(np.searchsorted(samples[:, 0], end_ns, side="right")) - 1)] = True
    kept[min(len(samples) - 1, int(np.searchsorted(samples[:, 0], begin_ns)))] = True
    offset = 0
    for piece in whole._pieces:
        mine = kept[offset : offset + len(piece.at)]
        mine[_holding(piece, float(first - whole._begin), float(last - whole._begin))] = True
        offset += len(piece.at)
    some = samples[kept]
    return some if _are_alike(whole, NodeClock(some), first, last) else samples


def _are_alike(one: NodeClock, other: NodeClock, begin_ns: int, end_ns: int) -> bool:
    # Both are straight between the points of their lines.
    points = np.concatenate(
        [np.rint(clock._line.at).astype(np.int64) + clock._begin for clock in (one, other)]
    )
    at = np.append(points[(points > begin_ns) & (points < end_ns)], [begin_ns, end_ns])
    moved = np.abs(one.to_server(at) - other.to_server(at)).max()
    return bool(max(moved, np.abs(one.error_at(at) - other.error_at(at)).max()) <= ALIKE_NS)


class _Bounds(NamedTuple):
    """The bounds that exchanges give, in order of time, and what is known of the rate of the offset."""

    at: Floats  # ns
    lower: Floats  # ns
    upper: Floats  # ns
    rate: float = 0.0
    spread: float = RATE_LIMIT  # the rate is never further from `rate` than this

    @classmethod
    def of(cls, rows: Ints, begin_ns: int, base_ns: int) -> _Bounds:
        offset, half = (rows[:, 1] - base_ns).astype(np.float64), rows[:, 2] / 2
        return cls((rows[:, 0] - begin_ns).astype(np.float64), offset - half, offset + half)

    def part(self, begin: int, end: int) -> _Bounds:
        """Some of the exchanges, with the rate that they alone imply."""
        part = _Bounds(self.at[begin:end], self.lower[begin:end], self.upper[begin:end])
        low, high = _mean_rate(part)
        low, high = max(low, -RATE_LIMIT), min(high, RATE_LIMIT)
        if low > high:
            # No clock is as fast as this: it was set, and the exchanges will contradict each other.
            low, high = -RATE_LIMIT, RATE_LIMIT
        return part._replace(rate=(low + high) / 2, spread=(high - low) / 2 + WANDER)


class _Line(NamedTuple):
    """A mapping, straight between these moments."""

    at: Floats
    middle: Floats
    error: Floats


def _baseline(bounds: _Bounds) -> list[int]:
    """Those two exchanges that leave the least room for the mean rate between them, and before them those by
    which they are found."""
    at, half = bounds.at, (bounds.upper - bounds.lower) / 2
    first, last = 0, len(at) - 1
    found = [first, last]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Not the best pair of all, but each is the best for the other.
        for _ in range(3):
            first = int(np.argmin(np.where(at < at[last], (half + half[last]) / (at[last] - at), np.inf)))
            last = int(np.argmin(np.where(at > at[first], (half + half[first]) / (at - at[first]), np.inf)))
            found += [first, last]
    return found


def _holding(bounds: _Bounds, begin: float, end: float) -> list[int]:
    """The exchanges outside of a stretch that give the bounds at its ends, and all that give the rate."""
    if bounds.at[-1] <= bounds.at[0]:
        return list(range(len(bounds.at)))
    widening, moved = bounds.spread * bounds.at, bounds.rate * bounds.at
    low, high = bounds.lower - moved, bounds.upper - moved
    early, late = bounds.at < begin, bounds.at > end
    found = _baseline(bounds)
    for outside, way in ((early, widening), (late, -widening)):
        if outside.any():
            found.append(int(np.argmax(np.where(outside, low + way, -np.inf))))
            found.append(int(np.argmin(np.where(outside, high - way, np.inf))))
    return found


def _mean_rate(bounds: _Bounds) -> tuple[float, float]:
    """Least and greatest mean rate between the exchanges of `_baseline`."""
    at = bounds.at
    if at[-1] <= at[0]:
        return -RATE_LIMIT, RATE_LIMIT
    first, last = _baseline(bounds)[-2:]
    baseline = at[last] - at[first]
    low = (bounds.lower[last] - bounds.upper[first]) / baseline
    high = (bounds.upper[last] - bounds.lower[first]) / baseline
    return float(low), float(high)


class _Reach(NamedTuple):
    """Bounds carried forward and back. Entry i: from all exchanges before i, or from i and all later.

    Less `rate` per time, and seen from moment 0: at moment t a lower bound is `low_past - spread * t` and
    `low_coming + spread * t`, an upper one the same with the other sign.
    """

    low_past: Floats
    low_coming: Floats
    high_past: Floats
    high_coming: Floats

    @classmethod
    def of(cls, bounds: _Bounds) -> _Reach:
        at, widening = bounds.at, bounds.spread * bounds.at
        low, high = bounds.lower - bounds.rate * at, bounds.upper - bounds.rate * at
        return cls(
            np.concatenate([[-np.inf], np.maximum.accumulate(low + widening)]),
            np.concatenate([np.maximum.accumulate((low - widening)[::-1])[::-1], [-np.inf]]),
            np.concatenate([[np.inf], np.minimum.accumulate(high - widening)]),
            np.concatenate([np.minimum.accumulate((high + widening)[::-1])[::-1], [np.inf]]),
        )


def _at(bounds: _Bounds, moments: Floats) -> tuple[Floats, Floats]:
    """Lower and upper bound of the offset at any moments."""
    reach, which = _Reach.of(bounds), np.searchsorted(bounds.at, moments, side="right")
    widening, moved = bounds.spread * moments, bounds.rate * moments
    lower = np.maximum(reach.low_past[which] - widening, reach.low_coming[which] + widening)
    upper = np.minimum(reach.high_past[which] + widening, reach.high_coming[which] - widening)
    return lower + moved, upper + moved


def _bends(bounds: _Bounds) -> Floats:
    """Moments between exchanges at which another one of them gives the bound, in no order."""
    reach, inner = _Reach.of(bounds), slice(1, -1)
    low = (reach.low_past[inner] - reach.low_coming[inner]) / (2 * bounds.spread)
    high = (reach.high_coming[inner] - reach.high_past[inner]) / (2 * bounds.spread)
    bends: Floats = np.clip(
        np.concatenate([low, high]), np.tile(bounds.at[:-1], 2), np.tile(bounds.at[1:], 2)
    )
    return bends


def _pieces(bounds: _Bounds) -> list[_Bounds]:
    """The exchanges in stretches within which they agree with each other."""
    pieces, waiting = [], [(0, len(bounds.at))]
    while waiting:
        begin, end = waiting.pop()
        part = bounds.part(begin, end)
        cut = _contradiction(part)
        if cut is None:
            pieces.append(part)
        else:
            waiting += [(begin + cut, end), (begin, begin + cut)]
    return pieces


def _contradiction(bounds: _Bounds) -> int | None:
    """Where exchanges before contradict those from there on the most; None when all agree."""
    if len(bounds.at) == 1:
        return None
    reach, inner = _Reach.of(bounds), slice(1, -1)
    rises = reach.low_coming[inner] - reach.high_past[inner]
    falls = reach.low_past[inner] - reach.high_coming[inner]
    found = np.maximum(rises, falls)
    if found.max() <= ROUNDING_NS:
        return None
    # Whatever happened between the two that disagree the most did so in the longest pause, most likely.
    worst = found >= found.max() - ROUNDING_NS
    return int(np.argmax(np.where(worst, np.diff(bounds.at), -1.0))) + 1


def _line(pieces: list[_Bounds]) -> _Line:
    """Middle of what is possible, and how far from it the rest is."""
    limits = [_between(one, other) for one, other in itertools.pairwise(pieces)]
    begins = [-np.inf, *(begin for begin, _ in limits)]
    ends = [*(end for _, end in limits), np.inf]
    edges = [edge + step for limit in limits for edge in limit for step in (-1.0, 0.0, 1.0)]
    at = np.unique(np.concatenate([*(p.at for p in pieces), *(_bends(p) for p in pieces), edges]))
    lower, upper = np.full(len(at), np.inf), np.full(len(at), -np.inf)
    holding = np.zeros(len(at), np.int64)
    for piece, begin, end in zip(pieces, begins, ends, strict=True):
        held = slice(np.searchsorted(at, begin, side="right"), np.searchsorted(at, end))
        low, high = _at(piece, at[held])
        lower[held], upper[held] = np.minimum(lower[held], low), np.maximum(upper[held], high)
        holding[held] += 1
    middle = (lower + upper) / 2
    if len(pieces) > 1:
        sure = holding == 1
        middle = np.interp(at, at[sure], middle[sure])
        middle = np.maximum.accumulate(at + middle) - at  # the server's time never went back
    return _Line(at, middle, np.maximum(upper - middle, middle - lower) + ROUNDING_NS)


def _between(one: _Bounds, other: _Bounds) -> tuple[float, float]:
    """Between which moments the clock was set, when exchanges of two neighbouring pieces disagree."""
    known = min(one, other, key=lambda piece: piece.spread)
    early = _disagrees(one, other._replace(rate=known.rate, spread=known.spread))
    late = _disagrees(other, one._replace(rate=known.rate, spread=known.spread))
    begin = one.at[early][-1] if early.any() else one.at[-1]
    end = other.at[late][0] if late.any() else other.at[0]
    return float(begin), float(end)


def _disagrees(bounds: _Bounds, other: _Bounds) -> Bools:
    lower, upper = _at(other, bounds.at)
    found: Bools = (bounds.lower > upper + ROUNDING_NS) | (bounds.upper < lower - ROUNDING_NS)
    return found
