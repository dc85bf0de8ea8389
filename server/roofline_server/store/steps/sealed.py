"""Step deltas that are made for good at a sealing: of which windows, from which files, a little at a time.

They are made of the files of earlier sealings and of those that this one has just written, one counter set
after the other and of a large one some metrics at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...clock import NodeClock
from ...correlate import windows as step_windows
from ...correlate.steps import NODE_SETS, JobTables, counted
from ...ingest.columns import MAX_TIME_NS
from ...records import Incarnation, Metric, Table, rows
from ..catalog.catalog import Catalog, Progress
from ..catalog.clocks import ClockBook, Clocks, moment
from ..catalog.name_ids import Numbers
from ..segments.files import Segment
from ..segments.reader import Reader, on_server_clock
from .deltas import MADE, Deltas

log = logging.getLogger(__name__)

# A node silent for longer no longer holds up the step deltas of its job; what it brings later rebuilds them.
SILENT_NS = 600_000_000_000

SAMPLES = "samples_"
# Datasets that windows are made of, or that are summed up in windows but are no counters.
TOLD = ("marks", "spans", "calls", "events")
SHARE_BYTES = 96 << 20  # of samples in memory at once: less means to read and sort their keys more often
KEYS = ("rank", "node", "start_ns", "time_ns", "instance")


class Fresh(NamedTuple):
    """What a sealing adds to a job."""

    job: str
    segments: Sequence[Segment]  # its raw data; the catalog does not know them yet
    latest: dict[str, Table]  # see `Deltas.is_outdated`
    clocks: Clocks
    reported: dict[int, int]  # node -> node time it has reported up to


class Made(NamedTuple):
    """Segments of step deltas, paths of those they replace, and how far they go now."""

    segments: list[Segment]
    replaced: list[str]
    progress: Progress


class SealedSteps:
    """members: who has ever taken part in a job, for each job."""

    def __init__(
        self,
        catalog: Catalog,
        reader: Reader,
        numbers: Numbers,
        clocks: ClockBook,
        deltas: Deltas,
        members: Callable[[str], list[Incarnation]],
    ) -> None:
        self._catalog, self._reader, self._numbers = catalog, reader, numbers
        self._clocks, self._deltas, self._members = clocks, deltas, members

    def make(self, fresh: Fresh, put: Callable[[str, Table], Segment]) -> Made:
        """Step deltas of all windows that are complete by now and not stored yet. put: writes a dataset."""
        progress, stored, replaced = self._catalog.progress(fresh.job), self._catalog.segments(fresh.job), []
        if self._deltas.is_outdated(fresh.job, progress, fresh.latest, fresh.clocks):
            log.info("job %s: a node or a server reported late, its step deltas are rebuilt", fresh.job)
            replaced = [s.path for s in stored if s.dataset.startswith("steps")]
            progress = Progress()
        through = self._complete_through(fresh)
        # Around what is new a margin on either side is read again: as much at least shall be new.
        if through - progress.through_ns < self._deltas.margin_ns(fresh.job):
            return Made([], replaced, progress)
        needed = self._needed([*stored, *fresh.segments], self._since(fresh, progress))
        tables = self._told(fresh.job, needed, progress, fresh.clocks)
        found, latest = self._deltas.fresh(tables, progress, through)
        if "steps" in found:
            anew = not progress.through_ns
            self._clocks.settle(fresh.job, found["steps"], tables.homes, anew)
        segments = [put(name, table) for name, table in found.items()]
        for name, table in self._counters(found.get("steps", {}), needed, tables.homes, fresh.clocks):
            segments.append(put(name, table))
        resume = step_windows.last_needed(tables.marks, step_windows.build(tables.marks), through)
        # An open step of a rank that died must not hold the rest back for ever.
        resume = max(resume, through - SILENT_NS)
        done = {**progress.done, **latest}
        return Made(segments, replaced, Progress(through, resume, done, self._deltas.serving(fresh.job)))

    def _complete_through(self, fresh: Fresh) -> int:
        """Server time up to which all nodes of the job have reported everything."""
        nodes = {who.node for who in self._members(fresh.job)}
        moments = [moment(fresh.clocks[node], fresh.reported.get(node, 0)) for node in nodes]
        heard = [t for t in moments if t > max(moments, default=0) - SILENT_NS]
        return min(heard, default=0) - self._deltas.margin_ns(fresh.job)

    def _since(self, fresh: Fresh, progress: Progress) -> int:
        """Server time from which raw data are needed."""
        if not progress.resume_ns:
            return 0
        # The begin of a long step may be told with its end only.
        marks = on_server_clock(fresh.latest.get("marks", {}), fresh.clocks)
        began = int(marks["time_ns"].min()) if rows(marks) else MAX_TIME_NS
        return min(progress.resume_ns, began) - self._deltas.margin_ns(fresh.job)

    def _needed(self, segments: Sequence[Segment], since_ns: int) -> dict[str, list[Segment]]:
        """Segments of raw data by dataset."""
        needed: dict[str, list[Segment]] = {}
        for segment in segments:
            if segment.end_ns >= since_ns and not segment.dataset.startswith(MADE):
                needed.setdefault(segment.dataset, []).append(segment)
        return needed

    def _told(
        self, job: str, needed: dict[str, list[Segment]], progress: Progress, clocks: dict[int, NodeClock]
    ) -> JobTables:
        """Everything but samples; nothing where there are no marks and so no windows."""
        names = TOLD if "marks" in needed else ()
        segments = [segment for name in names for segment in needed.get(name, ())]
        return self._deltas.raw(job, [], segments, progress._replace(resume_ns=0), clocks)

    def _counters(
        self, windows: Table, needed: dict[str, list[Segment]], homes: Mapping[int, int], clocks: Clocks
    ) -> Iterator[tuple[str, Table]]:
        """What counters read at the borders of windows, one dataset at a time."""
        keys = {name: windows[name] for name in ("rank", "window", "step", "begin_ns", "end_ns") if windows}
        metrics = self._numbers.metrics_by_set()
        for dataset, segments in needed.items():
            name = dataset.removeprefix(SAMPLES)
            if not keys or name == dataset or name not in metrics:
                continue
            found: dict[str, Table] = {}
            for some in _shares(metrics[name], sum(s.rows for s in segments), name in NODE_SETS):
                wanted = [*KEYS, *(metric.name for metric in some)]
                samples = on_server_clock(self._reader.read(segments, wanted), clocks)
                for steps, table in counted(keys, name, samples, homes, some).items():
                    found.setdefault(steps, {}).update(table)
            yield from ((steps, table) for steps, table in found.items() if rows(table))


def _shares(metrics: Sequence[Metric], count: int, together: bool) -> Iterator[Sequence[Metric]]:
    """Metrics of `count` rows in shares that fit SHARE_BYTES with their keys, but at least one in each."""
    most = len(metrics) if together else max(1, SHARE_BYTES // (8 * max(1, count)) - len(KEYS))
    for first in range(0, len(metrics), most):
        yield metrics[first : first + most]
