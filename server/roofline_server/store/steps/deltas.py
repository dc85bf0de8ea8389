"""Step deltas, sums of parts and windows of time, made of raw data: one way for sealing and for views."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from roofline.limits import MAX_TIME_NS

from ...clock import NodeClock
from ...correlate import parts as part_sums
from ...correlate import windows as step_windows
from ...correlate.homes import Home, Homes, nodes_of
from ...correlate.steps import SERVING_ROLES, JobTables, by_time, correlate, own_and_adopted
from ...records import (
    Bools,
    Incarnation,
    Ints,
    Lifetime,
    MarkKind,
    Metric,
    RankKey,
    Table,
    concatenate,
    rows,
    take,
)
from ..catalog.catalog import OpenMark, Progress
from ..catalog.clocks import Clocks, moment
from ..segments.files import PARTS, Segment
from ..segments.reader import Reader, distinct, on_server_clock
from .shares import in_shares

# Kernel records and marks may reach the agent this long after they happened.
LATE_ROWS_NS = 5_000_000_000

PIECE_ROWS = 1 << 17  # of a segment in memory at once
SAMPLES = "samples_"
COVERAGE = ("rank", "node", "kind", "time_ns", "end_ns")

# Step table -> its columns that are wanted in addition to the keys; None: all.
Needed = Mapping[str, Sequence[str] | None]


class JobNames(Protocol):
    """As much as is asked of `NameIds`."""

    def ranks_of(self, job: str) -> dict[int, RankKey]: ...

    def metrics_by_set(self, job: str | None = None) -> dict[str, list[Metric]]: ...

    def intervals_ns(self, nodes: Iterable[int]) -> list[int]: ...


class Deltas:
    """Computes; keeps nothing. members: all processes that ever took part in a job, for each job."""

    def __init__(
        self, name_ids: JobNames, reader: Reader, members: Callable[[str], Iterable[Incarnation]]
    ) -> None:
        self._name_ids = name_ids
        self._reader = reader
        self._members = members

    def since_ns(self, job: str, marks: Table, progress: Progress, clocks: Clocks) -> int:
        """Server time from which on raw data are needed: where the stored step deltas leave off.

        marks: those that came since, in node time.
        """
        if not progress.resume_ns:
            return 0
        # The begin of a long step may be reported with its end only.
        began = int(on_server_clock(marks, clocks)["time_ns"].min()) if rows(marks) else MAX_TIME_NS
        return min(progress.resume_ns, began) - self.margin_ns(job)

    def needed(self, segments: Iterable[Segment], since_ns: int) -> dict[str, list[Segment]]:
        """The segments of raw data that have any from then on, by dataset."""
        found: dict[str, list[Segment]] = {}
        for segment in segments:
            if segment.end_ns >= since_ns and not segment.is_derived:
                found.setdefault(segment.dataset, []).append(segment)
        return found

    def job_tables(
        self,
        job: str,
        segments: Mapping[str, Sequence[Segment]],
        fresh: Mapping[str, Table],
        progress: Progress,
        clocks: Mapping[int, NodeClock],
        since_ns: int = 0,
    ) -> JobTables:
        """Raw data of these segments, by dataset, and those not sealed yet, all on the server's clock, from
        this server time on; from before that, the marks at which steps begin that had not ended."""
        tables: dict[str, Table] = {}
        for name in segments.keys() | fresh.keys():
            table = concatenate([self._reader.read(segments.get(name, ())), fresh.get(name, {})])
            timed = on_server_clock(table, clocks)
            if name == "marks" and rows(table):
                timed["node_ns"] = table["time_ns"]
            tables[name] = _from(timed, since_ns)
        opened = _before(_open_marks(progress.opened, clocks), since_ns)
        return JobTables(
            self._name_ids.ranks_of(job),
            concatenate([opened, tables.get("marks", {})]),
            {n.removeprefix(SAMPLES): t for n, t in tables.items() if n.startswith(SAMPLES)},
            tables.get("calls", {}),
            tables.get("events", {}),
            self._homes(job, clocks),
            tables.get("spans", {}),
            progress.stepped,
        )

    def _homes(self, job: str, clocks: Mapping[int, NodeClock]) -> Homes:
        found: dict[int, list[Incarnation]] = {}
        for who in self._members(job):
            found.setdefault(who.rank, []).append(who)
        return {rank: _in_order(each, clocks) for rank, each in found.items()}

    def new_steps(
        self, job: str, tables: JobTables, progress: Progress, through: int | None
    ) -> tuple[dict[str, Table], dict[tuple[int, int], int], Ints]:
        """Step deltas of windows that are not stored yet and, if given, do not end after `through`.

        With them, what `Progress.done` must contain once these are stored, and the node of each window.
        """
        wanted = partial(_are_new, progress, through)
        found = correlate(tables, self._name_ids.metrics_by_set(job), wanted)
        steps = found.get("steps", {})
        latest, nodes = step_windows.latest(steps), nodes_of(steps, tables.homes)
        for name in ("node", "node_ns", "sender"):
            steps.pop(name, None)
        return found, latest, nodes

    def begin_ns(
        self, job: str, tables: JobTables, progress: Progress, since_ns: int, through: int | None
    ) -> int | None:
        """Server time from which on raw data are needed for the windows that `new_steps` would give: since_ns
        or, where one is long, earlier; None: there is none. tables: at least the marks from since_ns on."""
        windows = own_and_adopted(tables)
        new = _are_new(progress, through, windows) if rows(windows) else np.zeros(0, np.bool_)
        if not new.any():
            return None
        return min(since_ns, int(windows["begin_ns"][new].min()) - self.margin_ns(job))

    def are_outdated(
        self,
        job: str,
        progress: Progress,
        raw: Mapping[str, Table],
        begins: Mapping[int, int],
        clocks: Clocks,
    ) -> bool:
        """Whether stored step deltas are not what they would be now: a node reported late, a serving rank
        came since, or one that was given the workers' steps marks its own.

        raw: what came since; begins: of each node in it, when its oldest batch of that begins.
        """
        if not progress.through_ns:
            return False
        if not set(self.serving(job)) <= set(progress.serving):
            return True
        given = set(progress.serving) - progress.stepped
        if given and not given.isdisjoint(step_windows.stepping(raw.get("marks", {}))):
            return True
        # A late batch may bring a begin, or a span, alone.
        began = (moment(clocks[node], begin_ns) for node, begin_ns in begins.items())
        return min([_earliest(raw, clocks), *began]) <= progress.through_ns

    def lifetimes_of(
        self, job: str, lifetimes: Mapping[Incarnation, Lifetime]
    ) -> dict[Incarnation, Lifetime]:
        """The lifetimes, of these, that are of processes of a job."""
        ranks = self._name_ids.ranks_of(job)
        return {who: life for who, life in lifetimes.items() if who.rank in ranks}

    def serving(self, job: str) -> tuple[int, ...]:
        ranks = self._name_ids.ranks_of(job)
        return tuple(rank for rank, key in ranks.items() if key.role in SERVING_ROLES)

    def margin_ns(self, job: str) -> int:
        """How far around a window samples may lie that are needed to read its borders."""
        nodes = {who.node for who in self._members(job)}
        return max(LATE_ROWS_NS, *(2 * interval_ns for interval_ns in self._name_ids.intervals_ns(nodes)), 0)

    def by_time(
        self,
        job: str,
        segments: Sequence[Segment],
        fresh: Mapping[str, Table],
        clocks: Clocks,
        ranks: Collection[int],
        needed: Needed | None = None,
    ) -> dict[str, Table]:
        """Tables of step deltas in windows of equal time, of these ranks; without those in which nothing is
        counted. needed: see `Store.view`."""

        def wanted(name: str, metrics: Sequence[Metric], count: int) -> Iterator[Sequence[Metric]]:
            return in_shares([m for m in metrics if _is_needed(name, m, needed)], count)

        # The one question whose cost follows the samples: there are no step deltas to read instead. So no
        # more is held of them at once than has to be.
        stored = self.needed(segments, 0)
        metrics = self._name_ids.metrics_by_set(job)
        kernels = needed is None or "steps_kernels" in needed
        if not kernels and not any(_is_needed(name, m, needed) for name, of in metrics.items() for m in of):
            return {}
        of_ranks = partial(self._of_ranks, stored, fresh, clocks, frozenset(ranks))
        samples = {
            dataset.removeprefix(SAMPLES): partial(of_ranks, dataset)
            for dataset in sorted(stored.keys() | fresh.keys())
            if dataset.startswith(SAMPLES)
        }
        calls = of_ranks("calls", None) if kernels else {}
        return by_time(samples, metrics, calls, of_ranks("events", COVERAGE), wanted)

    def _of_ranks(
        self,
        stored: Mapping[str, Sequence[Segment]],
        fresh: Mapping[str, Table],
        clocks: Clocks,
        ranks: frozenset[int],
        dataset: str,
        columns: Sequence[str] | None,
    ) -> Table:
        """What there is of some ranks, on the server's clock. Of others no more than PIECE_ROWS are held."""
        found: list[Table] = []
        for segment in stored.get(dataset, ()):
            pieces = self._reader.batches(segment, PIECE_ROWS, columns)
            found += (_rows_of(piece, ranks) for piece in pieces)
        new = fresh.get(dataset, {})
        found.append(_rows_of({n: c for n, c in new.items() if columns is None or n in columns}, ranks))
        return on_server_clock(concatenate(found), clocks)

    def sum_parts(self, job: str, raw: Mapping[str, Table], clocks: Clocks) -> dict[str, Table]:
        """Counter set -> what its parts counted, one row each."""
        metrics, found = self._name_ids.metrics_by_set(job), {}
        for dataset, table in raw.items():
            name = dataset.removeprefix(SAMPLES)
            if name in metrics and name != dataset:
                some = part_sums.of_parts(table, whole_ranks=name.startswith("recorded_"))
                found[name] = part_sums.summarise(on_server_clock(some, clocks), metrics[name])
        return {name: table for name, table in found.items() if rows(table)}

    def part_totals(
        self,
        job: str,
        segments: Iterable[Segment],
        fresh: Iterable[Mapping[str, Table]],
        clocks: Clocks,
    ) -> list[part_sums.PartTotal]:
        """What parts counted over the whole job. fresh: a stretch each."""
        metrics = self._name_ids.metrics_by_set(job)
        new: dict[str, list[Table]] = {}
        for raw in fresh:
            for name, table in self.sum_parts(job, raw, clocks).items():
                new.setdefault(name, []).append(table)
        stored: dict[str, list[Segment]] = {}
        for segment in segments:
            if segment.dataset.startswith(PARTS):
                stored.setdefault(segment.dataset.removeprefix(PARTS), []).append(segment)
        found = []
        for name in sorted(stored.keys() | new.keys()):
            table = concatenate([self._reader.read(stored.get(name, ())), *new.get(name, ())])
            found += part_sums.totals(table, metrics.get(name, []))
        return found


def _is_needed(name: str, metric: Metric, needed: Needed | None) -> bool:
    """Whether a column of `steps_NAME` that is wanted is made of this metric, or hangs on it."""
    columns = None if needed is None else needed.get(f"steps_{name}", ())
    if columns is None:
        return True
    made = {
        n for one in (metric.name, metric.coverage_of) if one for n in (one, f"{one}.begin", f"{one}.end")
    }
    return not made.isdisjoint(columns)


def _rows_of(table: Table, ranks: frozenset[int]) -> Table:
    if not rows(table) or ranks.issuperset(distinct(table["rank"])):
        return table
    return take(table, np.isin(table["rank"], list(ranks)))


def _are_new(progress: Progress, through: int | None, windows: Table) -> Bools:
    """Which windows are not stored yet and, if given, do not end after `through`."""
    # What is stored is known by node time: a clock known better later moves windows, never these.
    new = ~step_windows.are_done(windows, progress.done)
    return new if through is None else new & (windows["end_ns"] <= through)


def _in_order(each: Sequence[Incarnation], clocks: Mapping[int, NodeClock]) -> list[Home]:
    """Where these processes of one rank were, the earliest first."""
    if len({who.node for who in each}) == 1:  # as nearly always: nothing has to be timed
        return [Home(0, each[0].node)]
    return sorted(Home(moment(clocks[who.node], who.start_ns), who.node) for who in each)


def _open_marks(opened: Sequence[OpenMark], clocks: Mapping[int, NodeClock]) -> Table:
    if not opened:
        return {}
    table: Table = dict(zip(OpenMark._fields, np.array(opened, np.int64).T, strict=True))
    nothing = np.full(len(opened), "", object)
    return {**on_server_clock(table, clocks), "node_ns": table["time_ns"], "phase": nothing}


def _before(table: Table, since_ns: int) -> Table:
    """The rows that `_from` leaves out."""
    return take(table, table["time_ns"] < since_ns) if rows(table) else table


def _from(table: Table, since_ns: int) -> Table:
    """The rows that do not end before this server time."""
    if not rows(table) or since_ns <= 0:
        return table
    late = table["end_ns" if "end_ns" in table else "time_ns"] >= since_ns
    return table if late.all() else take(table, late)


def _earliest(raw: Mapping[str, Table], clocks: Mapping[int, NodeClock]) -> int:
    """Server time of the oldest end of a step, call or sample: what a stored step delta may lack.

    Spans are reported with the end of their step and may lie long before it; so may the step's begin, and
    what lay between two steps.
    """
    moments = []
    for name, table in raw.items():
        if name == "marks":
            table = take(table, table["kind"] != MarkKind.BEGIN)
        if name not in ("events", "spans", "between", "waits") and rows(table):
            moments.append(int(on_server_clock(table, clocks)["time_ns"].min()))
    return min(moments, default=MAX_TIME_NS)
