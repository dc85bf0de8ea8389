"""What the server counts while it works. Each number has one writer; who reads them may be another thread."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

# From a commit on a fast disk to one that makes agents wait.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Histogram:
    """How often something took how long."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        """bounds: the upper ones of the buckets, upwards; beyond the last is one more."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass
class IngestCounts:
    """What was counted of all agents since the start."""

    batches: int = 0  # durable
    rows: int = 0  # in these
    bytes: int = 0  # of these, as they came
    refused: int = 0  # batches that were malformed
    doubled: int = 0  # batches that were durable, or about to be, when they came again
    commit_seconds: Histogram = field(default_factory=Histogram)
    commit_cpu_s: float = 0.0  # CPU time of all commits
    streams: Counter[tuple[str, int]] = field(default_factory=Counter)  # open ones, by agent and node

    def opened(self, agent: str, node: int) -> None:
        self.streams[agent, node] += 1

    def closed(self, agent: str, node: int) -> None:
        self.streams[agent, node] -= 1
        if not self.streams[agent, node]:
            del self.streams[agent, node]


@dataclass
class SealingCounts:
    """What was counted of all sealings since the start."""

    failed: int = 0
    failure: str = ""  # why the last one failed; "": it did not
    last: float | None = None  # when the last one succeeded, UNIX time, s
    seconds: Histogram = field(default_factory=Histogram)  # of those that succeeded

    def succeeded(self, seconds: float) -> None:
        self.seconds.add(seconds)
        self.last, self.failure = time.time(), ""

    def was_failure(self, why: str) -> None:
        self.failed += 1
        self.failure = why
