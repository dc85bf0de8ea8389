"""A source to copy: counts how often each rank was sampled. docs/first-change.md shows how.

A source is one file and one line in `SOURCES` (sources/__init__.py). Nothing it does affects the rank, and if
it fails, only its own rows of that moment are lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, SourceSettings, SourceStatus


class ExampleSource:
    """Counter set "example": one row per rank and sample."""

    # The name of the source (in doctor, --sources and notes); and what of a report its values fill.
    name = "example"
    fills = "how often each rank was sampled"

    # False: it only reads files. True: it asks something that takes its time or can hang (a driver, a
    # service), and gets its turn in another thread.
    measures = False

    # The metrics of a row, with kind and unit; also scope (Scope.PROCESS) and provenance (MEASURED) where
    # they are others. Each has a row in docs/metrics.md. The set's name is a dataset of the store.
    counter_set = CounterSet("example", (Metric("samples", MetricKind.CUMULATIVE, "1"),))

    def __init__(self, settings: SourceSettings) -> None:
        # The outside world comes in here (clock, /proc, /sys, environment), so that a test can make it up.
        self._clock = settings.clock
        self._samples: dict[Rank, int] = {}

    def probe(self) -> SourceStatus:
        # Asked once, before the first sample. Where it cannot work: SourceStatus(self.name, False, reason,
        # advice), with advice being what the owner of the node can do.
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        # Called every interval with the ranks alive now, and cheap. May raise OSError: a broken sample is
        # logged once and counted. A rank that has just gone has no row; a row of the node has rank None.
        rows = []
        for rank in ranks:
            self._samples[rank] = self._samples.get(rank, 0) + 1
            # The values are in the order of the metrics; None where nothing was measured.
            rows.append(Sample(rank, self._clock(), (self._samples[rank],)))
        return rows

    def close(self) -> None:
        # Called once at the end: stop child processes, close files.
        self._samples.clear()
