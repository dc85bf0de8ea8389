"""What a server that is busy asks of an agent, and the facts that tell so. No I/O."""

from __future__ import annotations

import threading
import time

from roofline.facts import FEWER, SLOWED
from roofline.texts import printable

from ..schedule import Task

SHORTEST_NS, LONGEST_NS = 10_000_000, 60_000_000_000  # between samples, whatever a server asks for
MOST_FEWER = 16  # times
MAX_REASON = 100  # characters


class SamplingRequest:
    """`change` is called in the exporter's thread, `take_facts` in the daemon's."""

    def __init__(self, sampling: Task) -> None:
        self.own_interval_ns = sampling.period_ns  # what the agent was asked for where it runs
        self.fewer = 1  # wrappers should record kernels of so many times fewer steps
        self._sampling = sampling
        self._lock = threading.Lock()
        self._facts: list[list[str]] = [[]]  # of each request since the last batch; the last one holds now

    def change(self, interval_ns: int, reason: str, fewer: int = 1) -> None:
        """Sample so often; 0: as often as the agent would. fewer: kernels of so many times fewer steps."""
        own_ns = self.own_interval_ns
        wanted_ns = max(SHORTEST_NS, min(LONGEST_NS, interval_ns or own_ns))
        self._sampling.change(wanted_ns, time.monotonic_ns())
        self.fewer = max(1, min(MOST_FEWER, fewer))
        facts, why = [], printable(reason)[:MAX_REASON]
        if why and wanted_ns > own_ns:
            facts.append(f"{SLOWED}={wanted_ns / 1e9:g} s: {why}")
        if why and self.fewer > 1:
            facts.append(f"{FEWER}={self.fewer}: {why}")
        with self._lock:
            self._facts.append(facts)

    def take_facts(self) -> list[str]:
        """All that held at a time since the last call, once each."""
        with self._lock:
            taken, self._facts = self._facts, self._facts[-1:]
        return list(dict.fromkeys(text for facts in taken for text in facts))
