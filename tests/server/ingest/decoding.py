"""Batches decoded without a catalog."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from roofline.v1 import ingest_pb2 as pb
from roofline_server.ingest.decode import decode
from roofline_server.records import Frame, KernelKind, Metric, RankKey, Table
from roofline_server.store.catalog.runs import RankTable, ReportedRank

NODE = 3


class OneRunEach:
    """Every job has one run."""

    def take(
        self, table: RankTable, begin_ns: int, end_ns: int, exits: Collection[int], patient: bool = False
    ) -> None:
        pass

    def names_of(self, table: RankTable, begin_ns: int, end_ns: int) -> list[str]:
        return [one.key.job for one in table.ranks]


class Numbering:
    """Ids from 100 on, and a record of all that was given one."""

    def __init__(self, first: int = 100) -> None:
        self.first = first
        self.given: list[RankKey | KernelKind] = []
        self.described: list[Metric] = []
        self.rank_tables: dict[object, object] = {}
        self.refused: set[str] = set()
        self.runs = OneRunEach()

    def _number(self, key: RankKey | KernelKind) -> int:
        if key not in self.given:
            self.given.append(key)
        return self.first + self.given.index(key)

    def count_processes(self, node: int, processes: Sequence[ReportedRank]) -> None:
        pass

    def rank_ids(self, keys: Sequence[RankKey], node: int) -> list[int]:
        return list(map(self._number, keys))

    def kernel_ids(self, kinds: Sequence[KernelKind], node: int) -> list[int]:
        return list(map(self._number, kinds))

    def fit(self, frame: Frame, node: int) -> Frame:
        self.described += frame.metrics
        return frame

    def allows(self, job: str, span: str) -> bool:
        return span not in self.refused


def frames(sent: pb.Batch) -> dict[tuple[str, str], Table]:
    found = decode(sent, NODE, Numbering()).frames
    assert len({f[:2] for f in found}) == len(found)
    return {(f.job, f.dataset): f.table for f in found}


def lists(table: Table) -> dict[str, list[object]]:
    return {name: column.tolist() for name, column in table.items()}
