"""Small integers for names, the same for ever: given out here, kept by the catalog.

A name has its number at once and is written with the next commit, before anything that refers to it by its
number: a thousand agents that come with new names wait for one write and not for a thousand. Who is killed
between has acknowledged nothing that holds them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from ...records import RECORDING, KernelKind, Machine, Metric, NodeKey, RankKey
from .catalog import Catalog
from .names import NewNames
from .runs import Runs

MAX_SPAN_NAMES = 256  # of a job, since the server was started


class NameIds:
    """Ids of nodes, ranks and kernels, and the metrics of every counter set. Thread-safe."""

    def __init__(
        self, catalog: Catalog, moment: Callable[[int, int], int | None] = lambda node, node_ns: node_ns
    ) -> None:
        """moment: server time of a node's time; None: nothing is known of its clock."""
        self._catalog = catalog
        self._lock, self._saving = threading.Lock(), threading.Lock()
        self._new = NewNames({}, {}, [])
        self._nodes, self._ranks, self._kernels, self._metrics = catalog.name_ids()
        self._next_rank = count(max(self._ranks.values(), default=0) + 1)
        self._next_kernel = count(max(self._kernels.values(), default=0) + 1)
        self.runs = Runs(catalog, self._ranks, moment)
        self._by_job: dict[str, dict[int, RankKey]] = {}
        for key, rank in self._ranks.items():
            self._by_job.setdefault(key.job, {})[rank] = key
        self._machines = catalog.machines()
        # Nodes that are recorded files.
        self.recordings = frozenset(node for key, node in self._nodes.items() if key.boot == RECORDING)
        self.rank_tables: dict[Any, Any] = {}  # see ingest/ranks.py
        self._spans: dict[str, set[str]] = {}  # job -> names of spans and phases that it may use

    def node_ids(self, reports: Mapping[NodeKey, Machine]) -> dict[NodeKey, int]:
        """The ids of nodes; remembers what they report of their machines."""
        with self._lock:
            new = {
                key: machine
                for key, machine in reports.items()
                if key not in self._nodes or self._machines.get(self._nodes[key]) != machine
            }
            for key, node in self._catalog.add_nodes(new).items() if new else ():
                self._nodes[key], self._machines[node] = node, new[key]
                if key.boot == RECORDING:
                    self.recordings |= {node}
            return {key: self._nodes[key] for key in reports}

    def rank_ids(self, keys: Sequence[RankKey]) -> list[int]:
        """Of ranks, in order."""
        with self._lock:
            for key in dict.fromkeys(keys):
                if key not in self._ranks:
                    rank = self._new.ranks[key] = next(self._next_rank)
                    self._by_job.setdefault(key.job, {})[rank] = key
                    self._ranks[key] = rank
        return [self._ranks[key] for key in keys]

    def save(self) -> None:
        """Write the names that are new: to be called before what refers to them is kept."""
        with self._saving:  # nobody goes on while another thread still writes what they need
            with self._lock:
                new, self._new = self._new, NewNames({}, {}, [])
            try:
                self._catalog.add_names(new)
            except Exception:
                with self._lock:
                    self._new = new.before(self._new)
                raise
        self.runs.save()

    def allows(self, job: str, span: str) -> bool:
        """Whether a job may use a name of spans or phases: each becomes columns, so they are bounded."""
        known = self._spans.setdefault(job, set())
        if span not in known and len(known) < MAX_SPAN_NAMES:
            with self._lock:
                known.add(span)
        return span in known

    def kernel_ids(self, kinds: Sequence[KernelKind]) -> list[int]:
        """Of kernels, in order, likewise."""
        with self._lock:
            for kind in dict.fromkeys(kinds):
                if kind not in self._kernels:
                    self._kernels[kind] = self._new.kernels[kind] = next(self._next_kernel)
        return [self._kernels[kind] for kind in kinds]

    def metrics(self, metrics: Sequence[Metric]) -> None:
        """Remember metrics; the first description of one stays."""
        if all((m.counter_set, m.name) in self._metrics for m in metrics):
            return
        with self._lock:
            for metric in metrics:
                if (metric.counter_set, metric.name) not in self._metrics:
                    self._metrics[metric.counter_set, metric.name] = metric
                    self._new.metrics.append(metric)

    def nodes(self) -> dict[NodeKey, int]:
        return dict(self._nodes)

    def machines(self) -> dict[int, Machine]:
        """What each node reported last, whatever it was when a job ran there."""
        return dict(self._machines)

    def kernels(self) -> dict[int, KernelKind]:
        return {kernel: kind for kind, kernel in list(self._kernels.items())}

    def ranks(self) -> list[int]:
        """The ids of all ranks."""
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
