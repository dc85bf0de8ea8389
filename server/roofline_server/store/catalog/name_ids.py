"""Small integers for names, the same for ever: the catalog gives them out, this keeps them at hand."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ...records import RECORDING, KernelKind, Machine, Metric, NodeKey, RankKey
from .catalog import Catalog

MAX_SPAN_NAMES = 256  # of a job, since the server was started


class Numbers:
    """Numbers of nodes, ranks and kernels, and the metrics of every counter set. Thread-safe."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._nodes, self._ranks, self._kernels, self._metrics = catalog.numbers()
        self._by_job: dict[str, dict[int, RankKey]] = {}
        for key, number in self._ranks.items():
            self._by_job.setdefault(key.job, {})[number] = key
        self._machines = catalog.machines()
        # Nodes that are recorded files.
        self.recordings = frozenset(number for key, number in self._nodes.items() if key.boot == RECORDING)
        self.rank_tables: dict[Any, Any] = {}  # see ingest/numbers.py
        self._spans: dict[str, set[str]] = {}  # job -> names of spans and phases that it may use

    def node(self, key: NodeKey, machine: Machine) -> int:
        """The number of a node; remembers what it says of its machine."""
        with self._lock:
            number = self._nodes.get(key)
            if number is None or self._machines.get(number) != machine:
                number = self._nodes[key] = self._catalog.add_node(key, machine)
                self._machines[number] = machine
                if key.boot == RECORDING:
                    self.recordings |= {number}
            return number

    def rank(self, key: RankKey) -> int:
        number = self._ranks.get(key)
        if number is None:
            with self._lock:
                number = self._ranks.get(key)
                if number is None:
                    number = self._catalog.add_rank(key)
                    self._by_job.setdefault(key.job, {})[number] = key
                    self._ranks[key] = number
        return number

    def allows(self, job: str, span: str) -> bool:
        """Whether a job may use a name of spans or phases: each becomes columns, so they are bounded."""
        known = self._spans.setdefault(job, set())
        if span not in known and len(known) < MAX_SPAN_NAMES:
            with self._lock:
                known.add(span)
        return span in known

    def kernel(self, kind: KernelKind) -> int:
        number = self._kernels.get(kind)
        if number is None:
            with self._lock:
                number = self._kernels.get(kind)
                if number is None:
                    number = self._kernels[kind] = self._catalog.add_kernel(kind)
        return number

    def metrics(self, metrics: Sequence[Metric]) -> None:
        """Remember metrics; the first description of one stays."""
        if all((m.counter_set, m.name) in self._metrics for m in metrics):
            return
        with self._lock:
            new = [m for m in metrics if (m.counter_set, m.name) not in self._metrics]
            self._catalog.add_metrics(new)
            self._metrics.update({(m.counter_set, m.name): m for m in new})

    def nodes(self) -> dict[NodeKey, int]:
        return dict(self._nodes)

    def machines(self) -> dict[int, Machine]:
        """What each node last said of itself, whatever it was when a job ran there."""
        return dict(self._machines)

    def kernels(self) -> dict[int, KernelKind]:
        """What the numbers of kernels stand for."""
        return {number: kind for kind, number in list(self._kernels.items())}

    def ranks(self) -> list[int]:
        """The numbers of all ranks."""
        return list(self._ranks.values())

    def ranks_of(self, job: str) -> dict[int, RankKey]:
        return dict(self._by_job.get(job, {}))

    def jobs(self) -> set[str]:
        return set(self._by_job)

    def metrics_by_set(self) -> dict[str, list[Metric]]:
        found: dict[str, list[Metric]] = {}
        for metric in list(self._metrics.values()):
            found.setdefault(metric.counter_set, []).append(metric)
        return found
