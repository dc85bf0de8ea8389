"""Decides how much of a core repeated questions, such as those of an open page, may take. No I/O.

Batches go first: Python runs one thread at a time, and agents wait as long as a question takes.
"""

from __future__ import annotations

from collections.abc import Sequence

QUIET_SHARE, BUSY_SHARE = 0.25, 0.01  # of a core, that is granted
QUIET, BUSY = 0.05, 0.20  # of a core, that batches take then
SOON, LATELY = 2, 30  # looks: more is noticed within the first, less after the second


def granted(shares: Sequence[float]) -> float:
    """The share of one core that questions may take. shares: what batches took of it, at looks a second
    apart, the newest last."""
    busy = max(sum(shares[-looks:]) / looks for looks in (SOON, LATELY))
    at = min(1.0, max(0.0, (busy - QUIET) / (BUSY - QUIET)))
    return (1 - at) * QUIET_SHARE + at * BUSY_SHARE
