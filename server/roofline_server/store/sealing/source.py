"""What a sealing needs from the server, requested piece by piece, so that another process may write the
files. It only hands out plain records and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ...records import Frame, Incarnation, Metric, RankKey, Removed, Table, rows
from ..catalog.catalog import Catalog, Progress
from ..catalog.clocks import ClockFacts, ClockRegistry
from ..catalog.name_ids import NameIds
from ..intake.tail import Unsealed, begins, stretches
from ..segments.files import Segment, StoreIdentity
from ..segments.frames import tables_of

PIECE_BYTES = 32 << 20  # of rows that are put together and written at once


class Task(NamedTuple):
    """What is to be sealed. Node times."""

    number: int
    identity: StoreIdentity
    datasets: dict[str, list[str]]  # of each job that has something new, or step deltas to be made
    reported: dict[int, int]  # node -> up to when it has reported everything
    begun: dict[str, dict[int, int]]  # job -> node -> when the oldest of its new batches begins
    damaged: dict[str, str]  # path -> why, of segments that are known to be
    recordings: frozenset[int]  # nodes that are recorded files


class SealingSource:
    """What one sealing needs of the server. Every public method may be called from another process."""

    def __init__(
        self,
        unsealed: Unsealed,
        identity: StoreIdentity,
        catalog: Catalog,
        name_ids: NameIds,
        clocks: ClockRegistry,
        members: Callable[[str], list[Incarnation]],
        damaged: Mapping[str, str],
        unfinished: Iterable[str] = (),
    ) -> None:
        """unfinished: jobs whose last step deltas may be complete by now."""
        self._catalog, self._name_ids, self._clocks, self._members = catalog, name_ids, clocks, members
        self._unsealed = unsealed
        parts = stretches(unsealed.batches)
        frames = [[f for batch in part for f in batch.decoded.frames if rows(f.base)] for part in parts]
        self._frames: dict[tuple[str, str], list[list[Frame]]] = {}
        for number, some in enumerate(frames):
            for frame in some:
                key = frame.job, frame.dataset
                self._frames.setdefault(key, [[] for _ in parts])[number].append(frame)
        datasets: dict[str, list[str]] = {}
        for job, dataset in self._frames:
            datasets.setdefault(job, []).append(dataset)
        for job in unfinished:
            datasets.setdefault(job, [])
        self._task = Task(
            unsealed.batches[-1].id,
            identity,
            datasets,
            unsealed.reported,
            begins(unsealed.batches),
            dict(damaged),
            name_ids.recordings,
        )
        self._tables: dict[tuple[str, str], Iterator[Table]] = {}

    def task(self) -> Task:
        return self._task

    def next_table(self, job: str, dataset: str) -> Table | None:
        """More rows of a dataset, of one stretch; None: there are no more."""
        key = job, dataset
        if key not in self._tables:
            self._tables[key] = tables_of(self._frames.pop(key), PIECE_BYTES)
        return next(self._tables[key], None)

    def clocks_of(self, job: str) -> dict[int, ClockFacts]:
        """What the clocks of a job's nodes are made of, as far as it is clear which these are."""
        mine = self._name_ids.ranks_of(job)
        lifetimes = {w: life for w, life in self._unsealed.process_lifetimes.items() if w.rank in mine}
        nodes = {who.node for who in lifetimes} | set(self._task.begun.get(job, ()))
        kept = self._clocks.kept_of_job(job, lifetimes)
        return {
            node: ClockFacts(kept[node], None) if node in kept else self._clocks.known(node) for node in nodes
        }

    def clock_of(self, node: int) -> ClockFacts:
        return self._clocks.known(node)

    def settled(self, job: str) -> Mapping[int, float]:
        return dict(self._clocks.settled(job))

    def members(self, job: str) -> list[Incarnation]:
        return self._members(job)

    def ranks_of(self, job: str) -> dict[int, RankKey]:
        return self._name_ids.ranks_of(job)

    def metrics_by_set(self, job: str | None = None) -> dict[str, list[Metric]]:
        return self._name_ids.metrics_by_set(job)

    def intervals_ns(self, nodes: Iterable[int]) -> list[int]:
        return self._name_ids.intervals_ns(nodes)

    def progress(self, job: str) -> Progress:
        found = self._catalog.progress(job)
        return found._replace(done=dict(found.done))

    def segments(self, job: str) -> list[Segment]:
        return self._catalog.segments(job)

    def removed(self, job: str) -> Removed | None:
        return self._catalog.removed(job)
