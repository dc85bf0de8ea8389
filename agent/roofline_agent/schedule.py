"""When the agent works: what is due, and what comes before it.

Waking costs more than work, so what is nearly due is done too.
"""

from __future__ import annotations

import contextlib
import os

SLACK_NS = 60_000_000
SLACK_SHARE = 4  # of its period, for what is done often


class Task:
    """Something due every `period_ns`, evenly spaced: a late round is skipped, not made up for."""

    def __init__(self, period_ns: int, first_ns: int) -> None:
        self.period_ns = period_ns  # set it with `change`
        self.next_ns = first_ns

    def change(self, period_ns: int, now_ns: int) -> None:
        """Another period from now on; a shorter one does not wait for the old one's end."""
        self.period_ns = period_ns
        self.bring_forward(now_ns + period_ns)

    def begin_anew(self, period_ns: int, now_ns: int, part: float) -> None:
        """Another period, of which the first round comes after a part (0 to 1): those of many nodes that
        change it at the same time do not fall together."""
        self.period_ns = period_ns
        self.next_ns = now_ns + int(part * period_ns)

    def bring_forward(self, moment_ns: int) -> None:
        """Be due then at the latest."""
        self.next_ns = min(self.next_ns, moment_ns)

    def due(self, now_ns: int) -> bool:
        """Whether it is to be done now; if so the next time is set."""
        early_ns = now_ns + min(SLACK_NS, self.period_ns // SLACK_SHARE)
        if early_ns < self.next_ns:
            return False
        periods = 1 + max(0, now_ns - self.next_ns) // self.period_ns
        self.next_ns += periods * self.period_ns
        return True


def give_way() -> None:
    """Let this thread, and what it starts from now on, never take a CPU from a thread that runs: SCHED_BATCH
    (sched(7)) waits until one is free, or until it is its turn. Where that is refused nothing changes."""
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
