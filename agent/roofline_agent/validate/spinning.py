"""Computes until it has had a CPU for a given time, measured by the clock alone.

Readings of the clock that follow within 50 us of each other were made by a thread that ran in between. A
longer gap is time without the CPU: other threads, other guests of a host. So the truth does not come from
the kernel's account, which is to be checked by it. Around each gap some of the thread's own time is not seen
either: 20 to 30 us where there were eight times as many threads as CPUs.
"""

from __future__ import annotations

import time

from .child.done import Amount

GAP_NS = 50_000


def spin(had_ns: int) -> Amount:
    """The time that this thread had a CPU, ns: as long as asked for and a bit more."""
    clock = time.perf_counter_ns
    total, gaps, before = 0, 0, clock()
    while total < had_ns:
        now = clock()
        passed = now - before
        if passed < GAP_NS:
            total += passed
        else:
            gaps += 1
        before = now
    return Amount(float(total), float(total), float(gaps * GAP_NS))
