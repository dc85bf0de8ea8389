"""Writes the files of a sealing, none of which counts before it is in the catalog.

Rows are put together and written some at a time, one dataset of one job after the other, so that a sealing
takes little memory in addition to the tail, however much is in it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from roofline.limits import MAX_TIME_NS

from ...clock import NodeClock
from ...records import NODE_JOB, Incarnation, Metric, RankKey, Removed, Table, concatenate, take
from ..catalog.catalog import Progress
from ..catalog.clocks import ClockFacts, Clocks
from ..segments.compaction import Compaction
from ..segments.files import PARTS, Piece, Segment, write
from ..segments.reader import Reader, on_server_clock
from ..steps.deltas import Deltas
from ..steps.sealed import NewData, NewSteps, SealedSteps
from .source import Task

log = logging.getLogger(__name__)

# What odd data raise; a full disk or a broken catalog is something else.
DATA_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class AnySource(Protocol):
    """See `SealingSource`."""

    def task(self) -> Task: ...

    def next_table(self, job: str, dataset: str) -> Table | None: ...

    def clocks_of(self, job: str) -> dict[int, ClockFacts]: ...

    def clock_of(self, node: int) -> ClockFacts: ...

    def settled(self, job: str) -> Mapping[int, float]: ...

    def members(self, job: str) -> list[Incarnation]: ...

    def ranks_of(self, job: str) -> dict[int, RankKey]: ...

    def metrics_by_set(self, job: str | None = None) -> dict[str, list[Metric]]: ...

    def intervals_ns(self, nodes: Iterable[int]) -> list[int]: ...

    def progress(self, job: str) -> Progress: ...

    def segments(self, job: str) -> list[Segment]: ...

    def removed(self, job: str) -> Removed | None: ...


class Written(NamedTuple):
    """What is on the disk. replaced: paths of segments that a rebuild made obsolete, or that were merged."""

    segments: list[Segment]
    replaced: list[str]
    progress: dict[str, Progress]
    settled: dict[str, Mapping[int, float]]
    damaged: dict[str, str]  # path -> why, of segments that were found to be


def write_sealing(root: Path, source: AnySource) -> Written:
    """Everything of a sealing. Raises OSError."""
    return _Writer(root, source).write()


class _Writer:
    def __init__(self, root: Path, source: AnySource) -> None:
        self._root, self._source, self._task = root, source, source.task()
        self._reader = Reader(root)
        self._reader.damaged.update(self._task.damaged)
        self._deltas = Deltas(source, self._reader, source.members)
        self._steps = SealedSteps(source, self._reader, source, source.settled, self._deltas, source.members)

    def write(self) -> Written:
        task, written = self._task, Written([], [], {}, {}, self._reader.damaged)
        compaction = Compaction(self._root, task.number, task.identity)
        for name, datasets in task.datasets.items():
            job = _JobWriter(self._root, name, task, self._clocks(name), self._deltas)
            segments = job.write(self._source, datasets)
            replaced: list[str] = []
            progress = Progress()
            if name != NODE_JOB:
                made = self._make_steps(job, segments)
                segments += made.segments
                replaced += made.replaced
                progress = made.progress
                # A plain dict, as it may go to another process.
                written.progress[name] = progress._replace(done=dict(progress.done))
                if made.settled is not None:
                    written.settled[name] = made.settled
            stored = [s for s in self._source.segments(name) if s.path not in replaced]
            # Raw data from here on are read at every sealing and view: all, where nothing is done yet.
            read_ns = MAX_TIME_NS
            if progress.resume_ns:
                read_ns = progress.resume_ns - self._deltas.margin_ns(name)
            merged = compaction.merge(stored, read_ns)
            written.segments.extend([*segments, *merged.segments])
            written.replaced.extend([*replaced, *merged.replaced])
        return written

    def _clocks(self, job: str) -> Clocks:
        known = self._source.clocks_of(job)

        def make(node: int) -> NodeClock:
            return NodeClock(*(known[node] if node in known else self._source.clock_of(node)))

        return Clocks(make)

    def _make_steps(self, job: _JobWriter, segments: Sequence[Segment]) -> NewSteps:
        task = self._task
        new = NewData(
            job.name,
            segments,
            job.latest(),
            job.clocks,
            task.reported,
            task.begun.get(job.name, {}),
            task.recordings,
        )
        try:
            return self._steps.make(new, job.put)
        except DATA_ERRORS:
            # What this job holds cannot be understood; that is no reason to keep all others in the inbox.
            log.exception("job %s: its step deltas cannot be made; its raw data are kept", job.name)
            return NewSteps([], [], self._source.progress(job.name))


class _JobWriter:
    """Writes what one sealing brings of a job."""

    def __init__(self, root: Path, name: str, task: Task, clocks: Clocks, deltas: Deltas) -> None:
        self.name, self.clocks = name, clocks
        self._root, self._number, self._identity = root, task.number, task.identity
        self._deltas = deltas
        self._parts: dict[str, list[Table]] = {}
        self._latest: dict[str, list[Table]] = {}

    def write(self, source: AnySource, datasets: Sequence[str]) -> list[Segment]:
        """Segments of all new rows, and of the sums of parts of nodes in them."""
        segments = [self._write(dataset, self._pieces(source, dataset)) for dataset in datasets]
        return segments + [self.put(f"{PARTS}{name}", concatenate(t)) for name, t in self._parts.items()]

    def put(self, dataset: str, table: Table) -> Segment:
        """Segment of a table that is on the server's clock."""
        return self._write(dataset, [_piece(table, table)])

    def _write(self, dataset: str, pieces: Iterable[Piece]) -> Segment:
        return write(self._root, self.name, dataset, self._number, pieces, identity=self._identity)

    def latest(self) -> dict[str, Table]:
        """What makes step deltas outdated: marks, and of the rest the first row of each node."""
        return {dataset: concatenate(tables) for dataset, tables in self._latest.items()}

    def _pieces(self, source: AnySource, dataset: str) -> Iterator[Piece]:
        while (table := source.next_table(self.name, dataset)) is not None:
            if self.name != NODE_JOB:
                self._latest.setdefault(dataset, []).append(_outline(dataset, table))
                for name, parts in self._deltas.sum_parts(self.name, {dataset: table}, self.clocks).items():
                    self._parts.setdefault(name, []).append(parts)
            yield _piece(table, on_server_clock(table, self.clocks))
            del table  # before the next is made


def _piece(table: Table, timed: Table) -> Piece:
    begin = timed["time_ns"] if "time_ns" in timed else timed["begin_ns"]
    return Piece(table, int(begin.min()), int(timed.get("end_ns", begin).max()))


def _outline(dataset: str, table: Table) -> Table:
    """See `_JobWriter.latest`."""
    if dataset == "marks":
        return {name: table[name] for name in ("rank", "kind", "node", "time_ns")}
    by_time = np.argsort(table["time_ns"], kind="stable")
    _, first = np.unique(table["node"][by_time], return_index=True)
    return take({name: table[name] for name in ("node", "time_ns")}, by_time[first])
