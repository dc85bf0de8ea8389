"""Step deltas, sums of parts and windows of time, made of raw data: one way for sealing and asking."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ...clock import NodeClock
from ...correlate import parts as part_sums
from ...correlate import windows as step_windows
from ...correlate.steps import SERVING_ROLES, JobTables, by_time, correlate
from ...ingest.columns import MAX_TIME_NS
from ...records import NODE_RANK, Bools, Frame, Incarnation, MarkKind, Table, concatenate, rows, take
from ..catalog.catalog import Progress
from ..catalog.clocks import Clocks
from ..catalog.name_ids import Numbers
from ..segments.files import Segment
from ..segments.reader import Reader, by_dataset, distinct, on_server_clock

# Kernel records and marks may reach the agent this long after they happened.
SLACK_NS = 5_000_000_000

# Datasets that were made of others.
MADE = ("steps", "parts_")


class Snapshot(NamedTuple):
    """What there is of a job at one moment: sealed, how far its step deltas go, and not sealed yet."""

    segments: list[Segment]
    progress: Progress
    frames: list[Frame]


class Deltas:
    """Computes; keeps nothing. members: who has ever taken part in a job, for each job."""

    def __init__(
        self, numbers: Numbers, reader: Reader, members: Callable[[str], Iterable[Incarnation]]
    ) -> None:
        self._numbers = numbers
        self._reader = reader
        self._members = members

    def raw(
        self,
        job: str,
        frames: list[Frame],
        segments: list[Segment],
        progress: Progress,
        clocks: dict[int, NodeClock],
    ) -> JobTables:
        """Raw data from where the stored step deltas leave off, on the server's clock."""
        fresh = by_dataset(frames)
        # The begin of a long step may be told with its end only.
        began = (
            int(on_server_clock(fresh["marks"], clocks)["time_ns"].min()) if "marks" in fresh else MAX_TIME_NS
        )
        since = min(progress.resume_ns, began) - self.margin_ns(job) if progress.resume_ns else 0
        needed: dict[str, list[Segment]] = {}
        for segment in segments:
            if segment.end_ns >= since and not segment.dataset.startswith(MADE):
                needed.setdefault(segment.dataset, []).append(segment)
        tables = {}
        for name in needed.keys() | fresh.keys():
            table = concatenate([self._reader.read(needed.get(name, ())), fresh.get(name, {})])
            tables[name] = on_server_clock(table, clocks)
            if name == "marks" and rows(table):
                tables[name]["node_ns"] = table["time_ns"]
        samples = {n.removeprefix("samples_"): t for n, t in tables.items() if n.startswith("samples_")}
        ranks = self._numbers.ranks_of(job)
        homes = {who.rank: who.node for who in self._members(job)}
        return JobTables(
            ranks,
            tables.get("marks", {}),
            samples,
            tables.get("calls", {}),
            tables.get("events", {}),
            homes,
            tables.get("spans", {}),
            progress.stepped,
        )

    def fresh(
        self, tables: JobTables, progress: Progress, through: int | None
    ) -> tuple[dict[str, Table], dict[tuple[int, int], int]]:
        """Step deltas of windows that are not stored yet and, if given, do not end after `through`.

        With them, what `Progress.done` must say once these are stored.
        """

        def wanted(windows: Table) -> Bools:
            # What is stored is told by node time: a clock known better later moves windows, never these.
            new = ~step_windows.are_done(windows, progress.done)
            return new if through is None else new & (windows["end_ns"] <= through)

        found = correlate(tables, self._numbers.metrics_by_set(), wanted)
        steps = found.get("steps", {})
        latest = step_windows.latest(steps)
        for name in ("node", "node_ns"):
            steps.pop(name, None)
        return found, latest

    def is_outdated(self, job: str, progress: Progress, raw: dict[str, Table], clocks: Clocks) -> bool:
        """Whether stored step deltas are not what they would be now: a node reported late, a serving rank
        came since, or one that was given the workers' steps marks its own."""
        if not progress.through_ns:
            return False
        new_server = not set(self.serving(job)) <= set(progress.serving)
        given = set(progress.serving) - progress.stepped
        speaks = bool(given) and not given.isdisjoint(step_windows.stepping(raw.get("marks", {})))
        return new_server or speaks or _earliest(raw, clocks) <= progress.through_ns

    def serving(self, job: str) -> tuple[int, ...]:
        ranks = self._numbers.ranks_of(job)
        return tuple(number for number, key in ranks.items() if key.role in SERVING_ROLES)

    def margin_ns(self, job: str) -> int:
        """How far around a window samples may lie that are needed to read its borders."""
        machines, nodes = self._numbers.machines(), {who.node for who in self._members(job)}
        return max(SLACK_NS, *(2 * machines[node].interval_ns for node in nodes), 0)

    def parts(self, raw: Mapping[str, Table], clocks: Clocks) -> dict[str, Table]:
        """Counter set -> what its parts counted, one row each."""
        metrics, found = self._numbers.metrics_by_set(), {}
        for dataset, table in raw.items():
            name = dataset.removeprefix("samples_")
            if name in metrics and name != dataset:
                some = part_sums.of_parts(table, whole_ranks=name.startswith("recorded_"))
                found[name] = part_sums.summarise(on_server_clock(some, clocks), metrics[name])
        return {name: table for name, table in found.items() if rows(table)}

    def part_totals(self, snapshot: Snapshot, clocks: Clocks) -> list[part_sums.PartTotal]:
        metrics = self._numbers.metrics_by_set()
        fresh = self.parts(by_dataset([f for f in snapshot.frames if _has_parts(f)]), clocks)
        stored: dict[str, list[Segment]] = {}
        for segment in snapshot.segments:
            if segment.dataset.startswith("parts_"):
                stored.setdefault(segment.dataset.removeprefix("parts_"), []).append(segment)
        found = []
        for name in sorted(stored.keys() | fresh.keys()):
            table = concatenate([self._reader.read(stored.get(name, ())), fresh.get(name, {})])
            found += part_sums.totals(table, metrics.get(name, []))
        return found

    def stepless(
        self,
        job: str,
        snapshot: Snapshot,
        steps: dict[str, Table],
        ranks: set[int],
        clocks: dict[int, NodeClock],
    ) -> dict[str, Table]:
        stepping = set(distinct(steps["steps"]["rank"]) if "steps" in steps else ())
        if not ranks - stepping:
            return {}
        # The one question whose cost follows the samples: there are no step deltas to read instead.
        everything = self.raw(job, snapshot.frames, snapshot.segments, Progress(), clocks)
        lives = by_time(everything, self._numbers.metrics_by_set())
        picked = {n: take(t, ~np.isin(t["rank"], list(stepping))) for n, t in lives.items() if rows(t)}
        return {name: table for name, table in picked.items() if rows(table)}


def _has_parts(frame: Frame) -> bool:
    if frame.dataset.startswith("samples_recorded_") or "instance" in frame.base:
        return True
    return bool(frame.metrics and (frame.base["rank"] == NODE_RANK).any())


def _earliest(raw: dict[str, Table], clocks: dict[int, NodeClock]) -> int:
    """Server time of the oldest end of a step, call or sample: what a stored step delta may lack.

    Spans are told with the end of their step and may lie long before it; so may the step's begin.
    """
    moments = []
    for name, table in raw.items():
        if name == "marks":
            table = take(table, table["kind"] != MarkKind.BEGIN)
        if name not in ("events", "spans") and rows(table):
            moments.append(int(on_server_clock(table, clocks)["time_ns"].min()))
    return min(moments, default=time.time_ns())
