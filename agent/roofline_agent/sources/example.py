"""A source to copy: counts how often each rank was looked at. Not in the table, so it is never used.

A source is one file and one line in `SOURCES` (sources/__init__.py). It promises: `probe` says whether it
works and if not why and what to do; `sample` is cheap, is called once per interval from one thread, and may
raise OSError, which costs its rows of that interval and is counted; nothing it does reaches the rank.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, SourceSettings, SourceStatus


class ExampleSource:
    """Counter set "example": one row per rank and sample."""

    # The name of the source, of its counter set and so of a dataset in the store.
    name = "example"

    # What of a report its values fill (doctor says so), and whether asking takes time or can hang: such a
    # source gets its turn apart from those that just read files.
    fills = "how often each rank was looked at"
    measures = False

    # Every metric with kind, unit, scope and provenance; add it to docs/metrics.md too.
    counter_set = CounterSet("example", (Metric("looks", MetricKind.CUMULATIVE, "1"),))

    def __init__(self, settings: SourceSettings) -> None:
        # The outside world comes in through settings (the /proc root, the interval, the environment).
        self._settings = settings
        self._looks: dict[int, int] = {}

    def probe(self) -> SourceStatus:
        # Called once. A reason is a sentence for people; advice is what the owner of the node can do.
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        # One row per rank, values in the order of the metrics; None where nothing was measured.
        rows = []
        for rank in ranks:
            self._looks[rank.pid] = self._looks.get(rank.pid, 0) + 1
            rows.append(Sample(rank, time.monotonic_ns(), (self._looks[rank.pid],)))
        return rows

    def close(self) -> None:
        # Called once at the end: stop child processes, close files.
        self._looks.clear()
