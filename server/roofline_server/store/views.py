"""What the store hands out of a job: its view, made of sealed data and of the tail, and its raw data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..correlate.steps import JobTables
from ..records import NODE_JOB, Incarnation, RankKey, Table, concatenate, rows, take
from .catalog.catalog import Catalog, Life, Progress
from .catalog.clocks import ClockBook
from .catalog.machines import Machines, Version
from .catalog.name_ids import Numbers
from .catalog.tags import Tags
from .export import RawData
from .intake.tail import Tail
from .segments.leases import Leases
from .segments.reader import Reader, by_dataset, grouped_by_rank, on_server_clock
from .steps.deltas import Deltas, Snapshot
from .view import JobView, facts_of

# In every step table that has them: who, which step, when, of which incarnation, on how many samples.
STEP_KEYS = ("rank", "window", "step", "begin_ns", "end_ns", "start_ns", "samples")

# Step table -> its columns that are wanted beside the keys; None: all.
Needed = Mapping[str, Sequence[str] | None]


class Views:
    """Reads of one data directory. Thread-safe."""

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        reader: Reader,
        tail: Tail,
        numbers: Numbers,
        clocks: ClockBook,
        deltas: Deltas,
        machines: Machines,
        tags: Tags,
        leases: Leases,
    ) -> None:
        self._root, self._catalog, self._reader, self._tail = root, catalog, reader, tail
        self._numbers, self._clocks, self._deltas = numbers, clocks, deltas
        self._machines, self._tags, self._leases = machines, tags, leases

    def jobs(self) -> set[str]:
        """All jobs ever heard of."""
        return {job for job in self._numbers.jobs() if self.ranks_of(job)}

    def ranks_of(self, job: str) -> dict[int, RankKey]:
        """The ranks of a job of which something is kept, by their numbers."""
        return self._tail.heard(self._numbers.ranks_of(job))

    def machine_versions(self) -> list[Version]:
        """All versions of all machines with the jobs reported against them; by host, newest first."""
        homes = {number: job for job in self.jobs() for number in self.ranks_of(job)}
        by_job: dict[str, dict[Incarnation, Life]] = {}
        for who, life in self._tail.lives_of(homes).items():
            by_job.setdefault(homes[who.rank], {})[who] = life
        return self._machines.versions(by_job, self._clocks.clocks())

    def overview(self, job: str) -> JobView:
        """Who takes part in a job and since when, without its data."""
        ranks = self.ranks_of(job)
        lives, machines, tags = self._tail.lives_of(ranks), self._numbers.machines(), self._tags.of(job)
        return JobView(job, ranks, lives, {}, {}, {}, {}, self._clocks.clocks(), machines, {}, tags=tags)

    def view(self, job: str, needed: Needed | None = None) -> JobView | None:
        """What is known of a job up to now; None when nobody has heard of it. needed: default everything."""
        if not self.ranks_of(job):
            return None
        with self._leases.held():
            return self._view(job, needed)

    def _view(self, job: str, needed: Needed | None) -> JobView:
        clocks = self._clocks.clocks()
        with self._tail.lock:
            # After this a rank may come of which the snapshot holds nothing, never the other way about.
            ranks = self.ranks_of(job)
            snapshot = self._snapshot(job)
            nodes = self._snapshot(NODE_JOB)
            lives = self._tail.lives_of(ranks)
        if self._deltas.is_outdated(job, snapshot.progress, by_dataset(snapshot.frames), clocks):
            raw = [s for s in snapshot.segments if not s.dataset.startswith("steps")]
            snapshot = Snapshot(raw, Progress(), snapshot.frames)
        tables = self._deltas.raw(job, snapshot.frames, snapshot.segments, snapshot.progress, clocks)
        steps = self._steps(snapshot, tables, needed)
        events = on_server_clock(self._all("events", snapshot), clocks)
        used = self._machines.used(lives, clocks)
        return JobView(
            job,
            ranks,
            lives,
            steps,
            self._deltas.stepless(job, snapshot, steps, set(ranks), clocks),
            events,
            self._watched(nodes, {who.node for who in lives}),
            clocks,
            {**self._numbers.machines(), **{node: use.machine for node, use in used.items()}},
            self._numbers.metrics_by_set(),
            self._deltas.part_totals(snapshot, clocks),
            self._numbers.recordings,
            facts_of(events),
            self._clocks.settled(job),
            self._tags.of(job),
            list(dict.fromkeys(use.note for use in used.values() if use.note)),
        )

    def raw(self, job: str) -> RawData | None:
        """Where the raw data of a job lies now; None when nobody has heard of it."""
        ranks = self.ranks_of(job)
        if not ranks:
            return None
        clocks, names, lease = self._clocks.clocks(), self._numbers, self._leases.take()
        with self._tail.lock:
            own, nodes = self._snapshot(job), self._snapshot(NODE_JOB)
            lives = self._tail.lives_of(ranks)
        return RawData(
            *(self._root, own.segments, own.frames, nodes.segments, nodes.frames, clocks, ranks, lives),
            *(names.machines(), names.kernels(), names.metrics_by_set(), lease),
        )

    def _snapshot(self, job: str) -> Snapshot:
        return Snapshot(self._catalog.segments(job), self._catalog.progress(job), self._tail.frames(job))

    def _steps(self, snapshot: Snapshot, tables: JobTables, needed: Needed | None) -> dict[str, Table]:
        fresh, _ = self._deltas.fresh(tables, snapshot.progress, None)
        stored = {s.dataset for s in snapshot.segments if s.dataset.startswith("steps")}
        found = {}
        for name in stored | fresh.keys():
            if needed is not None and name not in needed:
                continue
            some = None if needed is None else needed[name]
            wanted = None if some is None else (*STEP_KEYS, *some)
            kept = self._reader.pieces((s for s in snapshot.segments if s.dataset == name), wanted)
            new = {n: c for n, c in fresh.get(name, {}).items() if wanted is None or n in wanted}
            found[name] = grouped_by_rank([*kept, new])
        return found

    def _all(self, dataset: str, snapshot: Snapshot) -> Table:
        stored = self._reader.read(s for s in snapshot.segments if s.dataset == dataset)
        return concatenate([stored, *(f.table for f in snapshot.frames if f.dataset == dataset)])

    def _watched(self, nodes: Snapshot, wanted: set[int]) -> dict[int, Table]:
        events = self._all("events", nodes)
        if not rows(events):
            return {}
        return {node: take(events, events["node"] == node) for node in wanted}
