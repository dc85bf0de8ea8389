"""Clock exchanges with a node (see `clock`): what one of them says, and which are worth keeping."""

from __future__ import annotations

import numpy as np

from .clock import RATE_LIMIT
from .records import Ints, Knot

STRETCH_NS = 10_000_000_000
FIRST_KNOTS = 16  # kept whatever they say: they are all there is of a node that has just come
MOST_KNOTS = 2048  # per node


def exchange(t0: int, t1: int, t2: int, t3: int) -> Knot | None:
    """The knot one exchange gives; None when its times cannot be true (negative round trip)."""
    stay = t2 - t1
    # The bounds hold at t1 and at t2; in the middle the offset may be another by half of the stay's drift.
    rtt = (t3 - t0) - stay + int(stay * RATE_LIMIT)
    if rtt < 0 or stay < 0:
        return None
    return Knot(node_ns=(t1 + t2) // 2, offset_ns=((t0 - t1) + (t3 - t2)) // 2, rtt_ns=rtt)


def best(knots: Ints) -> Ints:
    """Of each stretch of time the knot with the highest lower and the one with the lowest upper bound.

    knots, and what is returned: rows of (node_ns, offset_ns, rtt_ns) in order of time.
    """
    if not len(knots):
        return knots
    stretch = knots[:, 0] // STRETCH_NS
    lower, upper = knots[:, 1] - knots[:, 2] // 2, knots[:, 1] + knots[:, 2] // 2
    kept = set()
    for order in (np.lexsort((-lower, stretch)), np.lexsort((upper, stretch))):
        _, first = np.unique(stretch[order], return_index=True)
        kept |= set(order[first].tolist())
    return knots[sorted(kept)]


def thin(knots: Ints, most: int = MOST_KNOTS) -> Ints:
    """Three quarters of the knots when there are more than `most`: old ones become sparser than young ones.

    Of the neighbours that are nearest to each other for their age, the one with the longer round trip goes.
    """
    if len(knots) <= most:
        return knots
    pairs = len(knots) // 2
    left, right = knots[: 2 * pairs : 2], knots[1 : 2 * pairs : 2]
    age = (knots[-1, 0] - left[:, 0]).astype(np.float64) + STRETCH_NS
    closest = np.argsort((right[:, 0] - left[:, 0]) / age, kind="stable")[: len(knots) // 4]
    worse = 2 * closest + (right[closest, 2] >= left[closest, 2])
    return np.delete(knots, worse, axis=0)
