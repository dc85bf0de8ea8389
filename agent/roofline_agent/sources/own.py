"""What the agent itself takes of the node: CPU time of all its threads, and memory.

Child processes (perf, likwid-perfctr, benchmarks) are not included.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, Scope, SourceSettings, SourceStatus
from .files import KeptFile, as_number

METRICS = (
    Metric("agent_cpu_ns", MetricKind.CUMULATIVE, "ns", Scope.NODE),
    Metric("agent_rss_bytes", MetricKind.GAUGE, "byte", Scope.NODE),
)
_EVERY_NS = 950_000_000
_PAGE = os.sysconf("SC_PAGE_SIZE")


class AgentSource:
    """Counter set "agent": a row for the node, once a second."""

    name = "agent"
    fills = "what the agent itself costs"
    measures = False
    counter_set = CounterSet("agent", METRICS)

    def __init__(self, settings: SourceSettings, cpu_ns: Callable[[], int] = time.process_time_ns) -> None:
        self._clock, self._cpu_ns = settings.clock, cpu_ns
        self._memory = KeptFile(f"{settings.proc}/self/statm", 128)
        self._sampled_ns = -(1 << 62)

    def probe(self) -> SourceStatus:
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        now = self._clock()
        if now - self._sampled_ns < _EVERY_NS:
            return []
        self._sampled_ns = now
        pages = (self._memory.read() or b"").split()
        resident = as_number(pages[1], _PAGE) if len(pages) > 1 else None
        return [Sample(None, now, (self._cpu_ns(), resident))]

    def close(self) -> None:
        self._memory.close()
