"""What the ids of one catalog are in another: names are the same in both, numbers need not be.

Names that the other lacks are added to it. A job of the same name is the same job where they share a process;
else it is another run, and gets the next number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import count
from typing import NamedTuple, TypeVar

import numpy as np

from ...records import Incarnation, Metric, NodeKey, RankKey, Table
from ..catalog.catalog import Catalog
from ..catalog.names import NewNames
from ..catalog.run_choice import job_and_number, run_name

Name = TypeVar("Name")
_Processes = dict[str, set[tuple[NodeKey, int, int]]]
_RANK_COLUMNS = ("rank", "sender")


class Ids(NamedTuple):
    """Ids of one catalog by those of another; `jobs` by name."""

    jobs: Mapping[str, str]
    nodes: Mapping[int, int]
    ranks: Mapping[int, int]
    kernels: Mapping[int, int]

    def is_same(self, job: str, ranks: Collection[int]) -> bool:
        """Whether files of a job of these ranks can stay as they are."""
        numbers = [*self.nodes.items(), *self.kernels.items(), *((r, self.ranks[r]) for r in ranks)]
        return self.jobs.get(job, job) == job and all(one == other for one, other in numbers)

    def incarnation(self, who: Incarnation) -> Incarnation:
        return who._replace(rank=self.ranks[who.rank], node=self.nodes[who.node])

    def table(self, table: Table) -> Table:
        """Raw rows with the ids of the other catalog. Raises LookupError for an id without a name."""
        found = dict(table)
        for names, ids in (
            (_RANK_COLUMNS, self.ranks),
            (("node",), self.nodes),
            (("kernel",), self.kernels),
        ):
            for name in names:
                if name in table:
                    each, at = np.unique(table[name], return_inverse=True)
                    new = [ids[one] if one >= 0 else one for one in each.tolist()]
                    found[name] = np.array(new, np.int64)[at.reshape(-1)]
        return found


def match(source: Catalog, target: Catalog, jobs: Collection[str]) -> Ids:
    """Adds all nodes and kernels of the source to the target, and the ranks of these of its jobs."""
    nodes, ranks, kernels = source.name_ids()
    known_nodes, known_ranks, known_kernels = target.name_ids()
    names = _job_names(source, target, jobs)
    machines = source.machines()
    new = {key: machines[node] for key, node in nodes.items() if key not in known_nodes}
    known_nodes |= target.add_nodes(new)
    renamed = {key: key._replace(job=names[key.job]) for key in ranks if key.job in names}
    added = NewNames(
        _numbered(renamed.values(), known_ranks),
        _numbered(kernels, known_kernels),
        *_metrics(source, target, names),
    )
    target.add_names(added)
    known_ranks |= added.ranks
    known_kernels |= added.kernels
    return Ids(
        names,
        {node: known_nodes[key] for key, node in nodes.items()},
        {ranks[key]: known_ranks[other] for key, other in renamed.items()},
        {kernel: known_kernels[kind] for kind, kernel in kernels.items()},
    )


def _numbered(names: Iterable[Name], known: Mapping[Name, int]) -> dict[Name, int]:
    """Ids for those that have none."""
    new = (name for name in dict.fromkeys(names) if name not in known)
    return dict(zip(new, count(1 + max(known.values(), default=0))))


def _metrics(
    source: Catalog, target: Catalog, names: Mapping[str, str]
) -> tuple[list[Metric], list[tuple[str, Metric]]]:
    """What the target lacks for each job to go on with the descriptions that it had."""
    described, firsts = source.metrics(), target.metrics()
    new = {key: metric for key, metric in described.items() if key not in firsts}
    firsts |= new
    exceptions, known = source.job_metrics(), target.job_metrics()
    own = []
    for job, name in names.items():
        for key, metric in {**described, **exceptions.get(job, {})}.items():
            if metric != firsts[key] and key not in known.get(name, {}):
                own.append((name, metric))
    return list(new.values()), own


def _job_names(source: Catalog, target: Catalog, jobs: Collection[str]) -> dict[str, str]:
    """Under which names the jobs of a source go on: also after a repair that was killed, the same."""
    theirs, ours = _processes(source), _processes(target)
    found: dict[str, str] = {}
    for job in sorted(jobs):
        base, number = job_and_number(job)
        name = job
        while (
            name in found.values() or (name != job and name in jobs) or _is_another(name, job, ours, theirs)
        ):
            number += 1
            name = run_name(base, number)
        found[job] = name
    return found


def _is_another(name: str, job: str, ours: _Processes, theirs: _Processes) -> bool:
    """Whether the target has another job of this name: both have processes, and none in common."""
    return bool(ours.get(name)) and bool(theirs.get(job)) and ours[name].isdisjoint(theirs[job])


def _processes(catalog: Catalog) -> _Processes:
    """Job -> the processes of its ranks, by names and not by ids; also those of batches in the inbox."""
    nodes, ranks, _ = catalog.name_ids()
    key_of: dict[int, RankKey] = {rank: key for key, rank in ranks.items()}
    node_of = {node: key for key, node in nodes.items()}
    found: _Processes = {key.job: set() for key in ranks}
    for who in catalog.process_lifetimes():
        found[key_of[who.rank].job].add((node_of[who.node], who.pid, who.start_ns))
    for (job, node, pid, start_ns), (number, _) in catalog.run_processes().items():
        found.setdefault(run_name(job, number), set()).add((node_of[node], pid, start_ns))
    return found
