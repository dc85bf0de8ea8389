"""Whether a training runs on this node: measuring then slows it down, and gives ceilings too low."""

from __future__ import annotations

import os
from collections.abc import Sequence

from roofline_agent.errors import Unavailable
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.records import Rank

_NAMED = 4  # more ranks are only counted


class Busy(Unavailable):
    """A training runs here; the text names its ranks."""


def running_ranks(proc: str = "/proc", pid: int | None = None) -> tuple[Rank, ...]:
    """Ranks that /proc shows, by job, role and index, but the one that process `pid` (None: we) belongs to.

    A batch system gives its variables to whatever it starts: that makes a calibration a rank of its job.
    """
    discovery = Discovery(proc)
    discovery.scan_young()
    own = discovery.look_at(os.getpid() if pid is None else pid)
    return tuple(sorted(rank for rank in discovery.ranks.values() if rank != own))


def refuse_beside(ranks: Sequence[Rank]) -> None:
    """Raises Busy if there are any."""
    if ranks:
        raise Busy(
            f"not calibrated, as a training runs on this node: {named(ranks)}. Measuring would slow it down, "
            "and its ceilings would be too low: calibrate when it has ended, or with --force"
        )


def named(ranks: Sequence[Rank]) -> str:
    """The first ranks in words: "job 42 worker 0 (pid 123)"."""
    words = [f"job {rank.job} {rank.role} {rank.index} (pid {rank.pid})" for rank in ranks[:_NAMED]]
    more = len(ranks) - len(words)
    return ", ".join(words) + (f" and {more} more" if more else "")
