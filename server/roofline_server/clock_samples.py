"""Clock samples of a node (see `clock`): how one is made of a ping, and which are worth keeping."""

from __future__ import annotations

import numpy as np

from .clock import RATE_LIMIT
from .records import ClockSample, Ints

STRETCH_NS = 10_000_000_000
FIRST_SAMPLES = 16  # all kept: they are all there is of a node that has just connected
MOST_SAMPLES = 2048  # per node


def exchange(t0: int, t1: int, t2: int, t3: int) -> ClockSample | None:
    """The sample that one ping gives; None when its times cannot be true (negative round trip).

    t0: sent by the server, t1: received by the node, t2: answered by the node, t3: received by the server.
    """
    stay = t2 - t1
    # The bounds hold at t1 and at t2; in the middle the offset may be another by half of the stay's drift.
    rtt = (t3 - t0) - stay + int(stay * RATE_LIMIT)
    if rtt < 0 or stay < 0:
        return None
    return ClockSample(node_ns=(t1 + t2) // 2, offset_ns=((t0 - t1) + (t3 - t2)) // 2, rtt_ns=rtt)


def best(samples: Ints) -> Ints:
    """Of each stretch of time the sample with the highest lower and the one with the lowest upper bound.

    samples, and what is returned: rows of (node_ns, offset_ns, rtt_ns) in order of time.
    """
    if not len(samples):
        return samples
    stretch = samples[:, 0] // STRETCH_NS
    lower, upper = samples[:, 1] - samples[:, 2] // 2, samples[:, 1] + samples[:, 2] // 2
    kept = set()
    for order in (np.lexsort((-lower, stretch)), np.lexsort((upper, stretch))):
        _, first = np.unique(stretch[order], return_index=True)
        kept |= set(order[first].tolist())
    return samples[sorted(kept)]


def thin(samples: Ints, most: int = MOST_SAMPLES) -> Ints:
    """Three quarters of the samples when there are more than `most`: old ones become sparser than young ones.

    Of the neighbours that are nearest to each other for their age, the one with the longer round trip goes.
    """
    if len(samples) <= most:
        return samples
    pairs = len(samples) // 2
    left, right = samples[: 2 * pairs : 2], samples[1 : 2 * pairs : 2]
    age = (samples[-1, 0] - left[:, 0]).astype(np.float64) + STRETCH_NS
    closest = np.argsort((right[:, 0] - left[:, 0]) / age, kind="stable")[: len(samples) // 4]
    worse = 2 * closest + (right[closest, 2] >= left[closest, 2])
    return np.delete(samples, worse, axis=0)
