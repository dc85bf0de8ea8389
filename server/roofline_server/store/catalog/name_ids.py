"""Small integers for names, the same forever: given out here, kept by the catalog.

A name has its number at once and is written with the next commit, before anything that refers to it by its
number: a thousand agents that come with new names wait for one write and not for a thousand. A server that is
killed in between has acknowledged nothing that refers to them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from ...errors import BadBatch
from ...records import RECORDING, Frame, KernelKind, Machine, Metric, NodeKey, RankKey
from .allowances import Allowances
from .catalog import Catalog
from .descriptions import Descriptions
from .names import NewNames
from .runs import Runs

MAX_SPAN_NAMES = 256  # of a job, since the server was started
# What an agent brings that is new in a day: it is kept for good. Of ranks, processes and kernels it brings at
# most half (its ranks/new_names.py).
MAX_BROUGHT = {"boots": 1_024, "ranks": 16_384, "processes": 131_072, "kernels": 65_536, "metrics": 4_096}


class NameIds:
    """Ids of nodes, ranks and kernels, and the metrics of every counter set. Thread-safe."""

    def __init__(
        self,
        catalog: Catalog,
        moment: Callable[[int, int], int | None] = lambda node, node_ns: node_ns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """moment: server time of a node's time; None: nothing is known of its clock. clock: s."""
        self._catalog = catalog
        self._allowances = Allowances(clock)
        self._lock, self._saving = threading.Lock(), threading.Lock()
        self._new = NewNames({}, {}, [], [])
        self._nodes, self._ranks, self._kernels = catalog.name_ids()
        self._next_rank = count(max(self._ranks.values(), default=0) + 1)
        self._next_kernel = count(max(self._kernels.values(), default=0) + 1)
        self._descriptions = Descriptions(
            catalog, lambda node, new: self._count(node, "metrics", new), self._keep_metrics
        )
        self.runs = Runs(catalog, self._ranks, moment)
        self._by_job: dict[str, dict[int, RankKey]] = {}
        for key, rank in self._ranks.items():
            self._by_job.setdefault(key.job, {})[rank] = key
        self._machines = catalog.machines()
        # Nodes that are recorded files.
        self.recordings = frozenset(node for key, node in self._nodes.items() if key.boot == RECORDING)
        self.rank_tables: dict[Any, Any] = {}  # see ingest/ranks.py
        self._agents = {node: key.agent for key, node in self._nodes.items()}
        self._described: set[int] = set()  # hashes of processes as nodes described them since this start
        self._spans: dict[str, set[str]] = {}  # job -> names of spans and phases that it may use

    def node_ids(self, reports: Mapping[NodeKey, Machine]) -> dict[NodeKey, int]:
        """The ids of nodes; remembers what they report of their machines. Boots of which an agent has too
        many are left out."""
        with self._lock:
            new = {key: machine for key, machine in reports.items() if self._is_new(key, machine)}
            try:
                added = self._catalog.add_nodes(new) if new else {}
            except Exception:
                for key in new.keys() - self._nodes.keys():
                    self._allowances.give_back((key.agent, "boots"))  # it comes again until it is kept
                raise
            for key, node in added.items():
                self._nodes[key], self._machines[node] = node, new[key]
                self._agents[node] = key.agent
                if key.boot == RECORDING:
                    self.recordings |= {node}
            return {key: self._nodes[key] for key in reports if key in self._nodes}

    def _is_new(self, key: NodeKey, machine: Machine) -> bool:
        """Whether this of a node is to be written: what it reports has changed, or it may boot once more."""
        if key in self._nodes:
            return self._machines.get(self._nodes[key]) != machine
        return self._allowances.take((key.agent, "boots"), MAX_BROUGHT["boots"])

    def _count(self, node: int | None, what: str, new: int) -> None:
        """Names are kept for good, so a node may bring so many, also if it boots again. Raises BadBatch."""
        if node is None or not new:
            return
        most = MAX_BROUGHT[what]
        if not self._allowances.take((self._agents.get(node, node), what), most, new):
            raise BadBatch(
                f"this node names too many {what}: at most {most} new ones a day, {new} more are too many now"
            )

    def count_processes(self, node: int, processes: Iterable[Hashable]) -> None:
        """A node describes processes so, which need not be new. Raises BadBatch where there are too many."""
        with self._lock:
            new = {hash((node, one)) for one in processes} - self._described
            self._count(node, "processes", len(new))
            self._described |= new

    def rank_ids(self, keys: Sequence[RankKey], node: int | None = None) -> list[int]:
        """Ids of ranks, in order. node: that names them. Raises BadBatch where it names too many."""
        with self._lock:
            new = [key for key in dict.fromkeys(keys) if key not in self._ranks]
            self._count(node, "ranks", len(new))
            for key in new:
                rank = self._new.ranks[key] = next(self._next_rank)
                self._by_job.setdefault(key.job, {})[rank] = key
                self._ranks[key] = rank
        return [self._ranks[key] for key in keys]

    def _keep_metrics(self, new: Sequence[Metric], of_jobs: Sequence[tuple[str, Metric]]) -> None:
        with self._lock:
            self._new.metrics.extend(new)
            self._new.of_jobs.extend(of_jobs)

    def save(self) -> None:
        """Write the names that are new: to be called before what refers to them is kept."""
        with self._saving:  # nobody goes on while another thread still writes what they need
            with self._lock:
                new, self._new = self._new, NewNames({}, {}, [], [])
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

    def kernel_ids(self, kinds: Sequence[KernelKind], node: int | None = None) -> list[int]:
        """Ids of kernels, in order. node: that names them. Raises BadBatch where it names too many."""
        with self._lock:
            new = [kind for kind in dict.fromkeys(kinds) if kind not in self._kernels]
            self._count(node, "kernels", len(new))
            for kind in new:
                self._kernels[kind] = self._new.kernels[kind] = next(self._next_kernel)
        return [self._kernels[kind] for kind in kinds]

    def fit(self, frame: Frame, node: int) -> Frame:
        """Samples with the descriptions of metrics that their job has (descriptions.py)."""
        return self._descriptions.fit(frame, node)

    def nodes(self) -> dict[NodeKey, int]:
        return dict(self._nodes)

    def machines(self) -> dict[int, Machine]:
        """What each node reported last, whatever it was when a job ran there."""
        return dict(self._machines)

    def intervals_ns(self, nodes: Iterable[int]) -> list[int]:
        """How long it is between two samples of each node."""
        return [self._machines[node].interval_ns for node in nodes]

    def kernels(self) -> dict[int, KernelKind]:
        return {kernel: kind for kind, kernel in list(self._kernels.items())}

    def ranks(self) -> list[int]:
        """The ids of all ranks."""
        return list(self._ranks.values())

    def ranks_of(self, job: str) -> dict[int, RankKey]:
        return dict(self._by_job.get(job, {}))

    def jobs(self) -> set[str]:
        return set(self._by_job)

    def metrics_by_set(self, job: str | None = None) -> dict[str, list[Metric]]:
        """As a job describes them; None: as they were first described."""
        return self._descriptions.of(job)
