"""The rank table of a batch: whose rows its columns hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
from roofline.v1 import ingest_pb2 as pb

from ..errors import BadBatch
from ..records import NODE_JOB, RECORDED, Frame, Incarnation, Ints, Metric, RankKey, Table, take
from ..store.catalog.name_ids import NameIds
from ..store.catalog.runs import RankTable, ReportedRank
from .columns import ints, printable, within

MAX_RANKS = 4096
MAX_RANK_TABLES = 2  # of a node: its newest, and that of its backlog
MAX_NODES = 8192  # of which tables are kept


@lru_cache(maxsize=65536)
def _rank(data: bytes) -> ReportedRank:
    """The rank (its ids still -1) of the Rank message in these bytes. Raises BadBatch."""
    r = pb.Rank.FromString(data)
    printable(r.name, "rank name", empty=True)
    printable(r.framework, "framework", empty=True)
    key = RankKey(printable(r.job, "job"), printable(r.role, "role"), r.index)
    who = Incarnation(-1, -1, r.pid, r.start_ns, r.name, r.world, r.framework)
    launch, user = printable(r.launch, "launch", empty=True), printable(r.user, "user", empty=True)
    return ReportedRank(key, who, launch, user)


class Ranks:
    """The rank table of a batch; its last extra entry stands for the node (index -1)."""

    def __init__(self, node: int, ranks: Sequence[bytes]) -> None:
        if len(ranks) > MAX_RANKS:
            raise BadBatch(f"{len(ranks)} ranks in one batch; at most {MAX_RANKS}")
        described = [_rank(data) for data in ranks]
        self.count = len(ranks)
        self.jobs = len({one.key.job for one in described})
        self.node = node
        self.incarnations = [one.who for one in described]
        self.present: list[Incarnation] = []  # without those that only a coordinator reported on
        self.ids: frozenset[int] = frozenset()
        self.owners: frozenset[tuple[str, str]] = frozenset()  # runs, and who submitted ranks of them
        self._starts = np.array([who.start_ns for who in self.incarnations] + [0], np.int64)
        self._reported = RankTable(node, described)
        self._jobs = np.array([NODE_JOB], object)
        self._only_job: str | None = None
        self._ids: Ints | None = None

    def assign_ids(
        self,
        name_ids: NameIds,
        begin_ns: int,
        end_ns: int,
        exits: Collection[int] = (),
        patient: bool = False,
    ) -> None:
        """Take a batch of these ranks, of which some have exited, and give the ranks their ids, once.

        Raises Unclear if it is patient and they can have none yet, BadBatch if a node names too many.
        """
        if self._ids is None:
            name_ids.count_processes(self.node, self._reported.ranks)
        name_ids.runs.take(self._reported, begin_ns, end_ns, exits, patient)
        if self._ids is None:
            jobs = name_ids.runs.names_of(self._reported, begin_ns, end_ns)
            self._jobs = np.array([*jobs, NODE_JOB], object)
            self._only_job = jobs[0] if len(set(jobs)) == 1 else None
            described = zip(self._reported.ranks, jobs, strict=True)
            ids = name_ids.rank_ids([one.key._replace(job=job) for one, job in described], self.node)
            for at, rank in enumerate(ids):
                self.incarnations[at] = self.incarnations[at]._replace(rank=rank, node=self.node)
            self.present = [who for who in self.incarnations if who.pid or who.framework == RECORDED]
            self.ids = frozenset(ids)
            users = (one.user for one in self._reported.ranks)
            self.owners = frozenset((job, user) for job, user in zip(jobs, users, strict=True) if user)
            self._ids = np.array([*ids, -1], np.int64)

    def column(self, data: bytes, what: str, least: int = 0) -> Ints:
        """Indices into this table, -1 for the node where `least` allows it. Raises BadBatch when one points
        nowhere."""
        column = ints(data, what)
        if not within(column, least, self.count - 1):
            raise BadBatch(f"{what} points outside the {self.count} ranks of the batch")
        return column

    def split(
        self, dataset: str, table: Table, metrics: tuple[Metric, ...] = (), values: Ints | None = None
    ) -> list[Frame]:
        """One frame per job; indices become rank ids, node and incarnation are added."""
        assert self._ids is not None
        at = table.pop("rank_at")
        table["rank"] = self._ids[at]
        if "sender" in table:
            sender = table["sender"]
            table["sender"], table["start_ns"] = self._ids[sender], self._starts[sender]
        table["node"] = np.full(len(at), self.node, np.int64)
        if dataset != "marks":
            table["start_ns"] = self._starts[at]
        if self._only_job is not None and dataset != "events":
            return [Frame(self._only_job, dataset, table, metrics, values)]
        jobs = self._jobs[at]
        if values is None:
            present = dict.fromkeys(jobs.tolist())
            if len(present) == 1:
                return [Frame(jobs[0], dataset, table)]
            return [Frame(job, dataset, take(table, jobs == job)) for job in present]
        # Samples that speak for the node are kept with every job that has ranks there.
        frames = []
        for job in dict.fromkeys(self._jobs[:-1].tolist()) or (NODE_JOB,):
            mine = (jobs == job) | (at < 0)
            if mine.any():
                frames.append(Frame(job, dataset, take(table, mine), metrics, values[:, mine]))
        return frames


def ranks_of(node: int, ranks: tuple[bytes, ...], name_ids: NameIds) -> Ranks:
    """The rank table of these messages; an agent sends the same one until a rank comes or goes."""
    tables = name_ids.rank_tables
    if node not in tables and len(tables) >= MAX_NODES:
        tables.clear()
    mine: dict[tuple[bytes, ...], Ranks] = tables.setdefault(node, {})
    found = mine.pop(ranks, None) or Ranks(node, ranks)
    # A list, as another stream of the node may be read in another thread.
    for oldest in list(mine)[: 1 - MAX_RANK_TABLES]:
        mine.pop(oldest, None)
    mine[ranks] = found
    return found
