"""Step deltas that become final at a sealing: for which windows, from which files, a little at a time.

They are made from the files of earlier sealings and those that this one has just written, one counter set
after the other, and for a large set some metrics at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ...clock import NodeClock
from ...correlate import windows as step_windows
from ...correlate.steps import NODE_SETS, SAMPLE_KEYS, JobTables, counted
from ...records import ABSENT, Incarnation, Ints, Metric, Removed, Table, constant, rows
from ..catalog.catalog import OpenMark, Progress
from ..catalog.clocks import Clocks, moment, settled_after
from ..segments.files import STEPS, Segment
from ..segments.reader import Reader, on_server_clock
from .deltas import SAMPLES, Deltas, JobNames
from .shares import in_shares

log = logging.getLogger(__name__)

# A node silent for longer no longer holds up the step deltas of its job; what it brings later rebuilds them.
SILENT_NS = 600_000_000_000

# A clock that is known no better may yet move its node's data out of the margin around what is read again.
CLOCK_ERROR_NS = 1_000_000_000

# Datasets that are summed up in windows but are no counters.
BESIDE_MARKS = ("spans", "calls", "events")


class NewData(NamedTuple):
    """What a sealing adds to a job."""

    job: str
    segments: Sequence[Segment]  # its raw data; the catalog does not know them yet
    latest: dict[str, Table]  # see `Deltas.are_outdated`
    clocks: Clocks
    reported: dict[int, int]  # node -> node time up to which it has reported everything
    begins: Mapping[int, int]  # node -> node time at which the oldest of its new batches begins
    recordings: frozenset[int] = frozenset()  # nodes that are recorded files: their times stand as they are


class NewSteps(NamedTuple):
    """Segments of step deltas, paths of those they replace, and how far they go now."""

    segments: list[Segment]
    replaced: list[str]
    progress: Progress
    settled: Mapping[int, float] | None = None  # see `settled_after`


class StoredJobs(Protocol):
    """What is stored of jobs."""

    def progress(self, job: str) -> Progress: ...

    def segments(self, job: str) -> list[Segment]: ...

    def removed(self, job: str) -> Removed | None: ...


class SealedSteps:
    """members: all processes that ever took part in a job, for each job. settled: see `ClockRegistry`."""

    def __init__(
        self,
        catalog: StoredJobs,
        reader: Reader,
        name_ids: JobNames,
        settled: Callable[[str], Mapping[int, float]],
        deltas: Deltas,
        members: Callable[[str], Sequence[Incarnation]],
    ) -> None:
        self._catalog, self._reader, self._name_ids = catalog, reader, name_ids
        self._settled, self._deltas, self._members = settled, deltas, members

    def make(
        self, new: NewData, put: Callable[[str, Table], Segment], through: int | None = None
    ) -> NewSteps:
        """Step deltas of all windows that are complete by now and not stored yet. put: writes a dataset.

        through: server time up to which windows are complete; None: as far as the nodes have reported.
        """
        progress, stored, replaced = self._catalog.progress(new.job), self._catalog.segments(new.job), []
        if self._catalog.removed(new.job) is not None:
            log.debug("job %s: its raw data were removed, its step deltas stay", new.job)
        elif self._deltas.are_outdated(new.job, progress, new.latest, new.begins, new.clocks):
            log.info("job %s: a node or a server reported late, its step deltas are rebuilt", new.job)
            replaced = [s.path for s in stored if s.dataset.startswith(STEPS)]
            progress = Progress()
        through = self._complete_through(new) if through is None else through
        # Around what is new a margin on either side is read again: at least as much must be new.
        if through - progress.through_ns < self._deltas.margin_ns(new.job):
            return NewSteps([], replaced, progress)
        raw = [*stored, *new.segments]
        tables, since_ns = self._complete_tables(new, raw, progress, through)
        found, latest, nodes = self._deltas.new_steps(new.job, tables, progress, through)
        settled = None
        if "steps" in found:
            before = self._settled(new.job) if progress.through_ns else None
            settled = settled_after(before, found["steps"], nodes, new.clocks)
        segments = [put(name, table) for name, table in found.items()]
        needed = self._deltas.needed(raw, since_ns)
        for name, table in self._counters(new, found.get("steps", {}), needed, nodes):
            segments.append(put(name, table))
        resume, opened = _needed_later(tables.marks, through)
        done = {**progress.done, **latest}
        after = Progress(through, resume, done, self._deltas.serving(new.job), opened)
        return NewSteps(segments, replaced, after, settled)

    def _complete_tables(
        self, new: NewData, raw: Sequence[Segment], progress: Progress, through: int
    ) -> tuple[JobTables, int]:
        """What the windows are made of that are complete now, and from which server time on it is read."""
        fresh, job = new.latest.get("marks", {}), new.job
        since_ns = self._deltas.since_ns(job, fresh, progress, new.clocks)
        marked = self._tables(new, raw, ["marks"], progress, since_ns)
        begin_ns = self._deltas.begin_ns(job, marked, progress, since_ns, through)
        if begin_ns is None:
            return marked, since_ns
        if begin_ns < since_ns:
            marked = self._tables(new, raw, ["marks"], progress, begin_ns)
        others = self._tables(new, raw, BESIDE_MARKS, progress, begin_ns)
        return others._replace(marks=marked.marks), begin_ns

    def _tables(
        self, new: NewData, raw: Sequence[Segment], names: Sequence[str], progress: Progress, since_ns: int
    ) -> JobTables:
        needed = self._deltas.needed(raw, since_ns)
        some = {name: needed[name] for name in names if name in needed}
        return self._deltas.job_tables(new.job, some, {}, progress, new.clocks, since_ns)

    def _complete_through(self, new: NewData) -> int:
        """Server time up to which all nodes of the job have reported everything; 0 while the clock of one of
        them is not known."""
        nodes = {who.node for who in self._members(new.job)}
        reported = {node: moment(new.clocks[node], new.reported.get(node, 0)) for node in nodes}
        since_ns = max(reported.values(), default=0) - SILENT_NS
        lately = {node for node in nodes if reported[node] > since_ns}
        if not all(
            _is_known(new.clocks[node], new.reported.get(node, 0)) for node in lately - new.recordings
        ):
            return 0
        return min((reported[node] for node in lately), default=0) - self._deltas.margin_ns(new.job)

    def _counters(
        self, new: NewData, windows: Table, needed: dict[str, list[Segment]], nodes: Ints
    ) -> Iterator[tuple[str, Table]]:
        """Counters at the borders of windows, one dataset at a time, some metrics of it at a time."""
        if not windows:
            return
        keys = {name: windows[name] for name in ("rank", "window", "step", "begin_ns", "end_ns")}
        metrics = self._name_ids.metrics_by_set(new.job)
        for dataset, segments in needed.items():
            name = dataset.removeprefix(SAMPLES)
            if name == dataset or name not in metrics:
                continue
            count = sum(segment.rows for segment in segments)
            shares: Iterable[Sequence[Metric]] = in_shares(metrics[name], count)
            if name in NODE_SETS:
                shares = [metrics[name]]  # which windows have rows depends on all of them together
            found: dict[str, Table] = {}
            for some in shares:
                wanted = [*SAMPLE_KEYS, *(metric.name for metric in some)]
                samples = on_server_clock(self._reader.read(segments, wanted), new.clocks)
                for steps, table in counted(keys, name, samples, nodes, some).items():
                    found.setdefault(steps, {}).update(table)
            yield from ((steps, table) for steps, table in found.items() if rows(table))


def _needed_later(marks: Table, through_ns: int) -> tuple[int, tuple[OpenMark, ...]]:
    """Server time from which on raw data are read again, and from before that the marks that are kept
    instead: a step that is open for long, perhaps as its rank died, must not have ever more read again."""
    windows = step_windows.build(marks)
    needed = step_windows.last_needed(marks, windows, through_ns)
    resume = max(needed, through_ns - SILENT_NS)
    if needed == resume:
        return resume, ()
    kept = step_windows.needed_before(marks, windows, through_ns, resume)
    if not rows(kept):
        return resume, ()
    kept["time_ns"] = kept.pop("node_ns")
    unknown = constant(ABSENT, rows(kept))
    columns = [kept.get(name, unknown).tolist() for name in OpenMark._fields]
    return resume, tuple(map(OpenMark, *columns))


def _is_known(clock: NodeClock, node_ns: int) -> bool:
    return bool(clock.error_at(np.array([node_ns], np.int64))[0] <= CLOCK_ERROR_NS)
