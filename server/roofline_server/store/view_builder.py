"""Makes views of jobs from sealed data and from the tail, and finds where a job's raw data are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ..correlate.steps import JobTables
from ..records import (
    NODE_JOB,
    Frame,
    Incarnation,
    Lifetime,
    RankKey,
    Table,
    concatenate,
    rows,
    take,
)
from .catalog.catalog import Catalog, Progress
from .catalog.clocks import ClockRegistry, Clocks, moment
from .catalog.machines import Machines, MachineVersion
from .catalog.name_ids import NameIds
from .catalog.run_choice import job_and_number, run_name
from .catalog.tags import Tags
from .intake.tail import Tail, TailBatch, begins, frames_of, stretches
from .raw_data import RawData, unsealed
from .same_names import told_apart
from .segments.files import STEPS, Segment
from .segments.frames import by_dataset
from .segments.leases import Leases
from .segments.reader import Reader, distinct, on_server_clock
from .segments.stacking import RowSource, source_of
from .steps.deltas import Deltas, Needed
from .steps.kept import Kept, KeptSteps, Wanted
from .view import JobView, as_they_turned_out, by_latest_ranks, extents_of, facts_of, with_breaks

# In every step table that has them: who, which step, when, of which incarnation, on how many samples.
STEP_KEYS = ("rank", "window", "step", "begin_ns", "end_ns", "start_ns", "samples")


class Snapshot(NamedTuple):
    """What there is of a job at one moment: sealed, how far its step deltas go, and not sealed yet."""

    segments: list[Segment]
    progress: Progress
    fresh: list[TailBatch]

    @property
    def frames(self) -> list[Frame]:
        return frames_of(self.fresh)

    @property
    def moment(self) -> Hashable:
        """Equal where the same is known of the job's steps."""
        paths, batches = (one.path for one in self.segments), (one.id for one in self.fresh)
        return self.progress.through_ns, self.progress.resume_ns, tuple(paths), tuple(batches)


class ViewBuilder:
    """Reads of one data directory. Thread-safe. Runs go by the names that they are kept under, or by those
    that `asked_as` gives; views and machines have the latter."""

    def __init__(
        self,
        catalog: Catalog,
        reader: Reader,
        tail: Tail,
        name_ids: NameIds,
        clocks: ClockRegistry,
        deltas: Deltas,
        machines: Machines,
        tags: Tags,
        leases: Leases,
        kept: KeptSteps,
        allows: Callable[[str], bool] = lambda job: True,
    ) -> None:
        """allows: whether a run is there for who asks; of another nothing is kept."""
        self._allows = allows
        self._catalog, self._reader, self._tail = catalog, reader, tail
        self._name_ids, self._clocks, self._deltas = name_ids, clocks, deltas
        self._machines, self._tags, self._leases, self._kept = machines, tags, leases, kept

    def ranks_of(self, job: str) -> dict[int, RankKey]:
        """The ranks of a job of which something is kept, by their ids; none of one that may not be seen. All
        else here goes by this."""
        run = self._kept_as(job)
        return {} if not self._allows(run) else self._tail.reported(self._name_ids.ranks_of(run))

    def only(self, allows: Callable[[str], bool]) -> ViewBuilder:
        """This builder for somebody who may not see all runs."""
        return ViewBuilder(
            catalog=self._catalog,
            reader=self._reader,
            tail=self._tail,
            name_ids=self._name_ids,
            clocks=self._clocks,
            deltas=self._deltas,
            machines=self._machines,
            tags=self._tags,
            leases=self._leases,
            kept=self._kept,
            allows=allows,
        )

    def tags_of(self, job: str) -> dict[str, str]:
        """A job's tags by name."""
        run = self._kept_as(job)
        return self._tags.of(run) if self._allows(run) else {}

    def jobs_tagged(self, name: str, value: str) -> list[str]:
        """The jobs whose tag `name` is `value`, in order of their ids."""
        return list(filter(self._allows, self._tags.jobs(name, value)))

    def jobs(self) -> set[str]:
        """All jobs of which something is kept."""
        return {job for job in self._name_ids.jobs() if self.ranks_of(job)}

    def run_called(self, job: str) -> str | None:
        """See `Store.run_called`."""
        base, number = job_and_number(job)
        for name in (*self._name_ids.runs.names(job), run_name(base, number), job):
            if self.ranks_of(name):
                return name
        return None

    def asked_as(self, run: str) -> str:
        """How to ask for a run, so that no other is meant: the first of several is "42/1"."""
        job, number = job_and_number(run)
        others = (other for other in self._name_ids.runs.numbers(job) if other != number)
        several = any(self.ranks_of(run_name(job, other)) for other in others)
        return f"{job}/{number}" if several else run

    def _kept_as(self, name: str) -> str:
        """The name that a run is kept under, of that by which it is asked for."""
        job, number = job_and_number(name)
        kept = run_name(job, number)
        return kept if number == 1 and self._name_ids.ranks_of(kept) else name

    def machine_versions(self) -> list[MachineVersion]:
        """All versions of all machines with the jobs reported against them; by host, newest first."""
        job_of = {rank: self.asked_as(job) for job in self.jobs() for rank in self.ranks_of(job)}
        by_job: dict[str, dict[Incarnation, Lifetime]] = {}
        for who, lifetime in self._tail.lifetimes_of(job_of).items():
            by_job.setdefault(job_of[who.rank], {})[who] = lifetime
        return self._machines.versions(by_job, self._clocks.clocks())

    def overview(self, job: str) -> JobView:
        """Who takes part in a job and since when, without its data."""
        ranks = self.ranks_of(job)
        view = JobView(
            self.asked_as(job),
            ranks,
            process_lifetimes=self._tail.lifetimes_of(ranks),
            steps={},
            time_windows={},
            events={},
            watched={},
            clocks=self._clocks.clocks(),
            machines=self._name_ids.machines(),
            metrics={},
            tags=self.tags_of(job),
        )
        return told_apart(by_latest_ranks(view), self._name_ids.nodes)

    def view(self, job: str, needed: Needed | None = None) -> JobView | None:
        """See `Store.view`."""
        if not self.ranks_of(job):
            return None
        job = self._kept_as(job)
        with self._leases.held():
            with self._tail.lock:
                # After this a rank may come of which the snapshot holds nothing, never the other way about.
                ranks = self.ranks_of(job)
                lifetimes = self._tail.lifetimes_of(ranks)
                snapshot = self._snapshot(job)
                # Of thousands of nodes that report it runs on some.
                of_nodes = self._snapshot(NODE_JOB, {who.node for who in lifetimes})
            clocks = self._clocks.of_job(job, lifetimes)
            fresh = by_dataset(snapshot.frames)
            removed = self._catalog.removed(job)
            if removed is None and self._deltas.are_outdated(
                job, snapshot.progress, fresh, begins(snapshot.fresh).get(job, {}), clocks
            ):
                segments = [s for s in snapshot.segments if not s.dataset.startswith(STEPS)]
                snapshot = Snapshot(segments, Progress(), snapshot.fresh)
            is_over = all(life.exited for life in lifetimes.values())
            # The clocks of a job that is over stay as they are.
            known_by = (
                () if is_over else tuple(clocks[node] for node in sorted({who.node for who in lifetimes}))
            )
            stamps = self._reader.stamps(one for one in snapshot.segments if one.dataset.startswith(STEPS))
            kept = self._kept.of(job, (snapshot.moment, known_by, stamps), not snapshot.fresh)
            steps = self._steps(job, snapshot, fresh, clocks, needed, kept)
            events = on_server_clock(self._all("events", snapshot.segments, fresh.get("events", {})), clocks)
            between = self._all("between", snapshot.segments, fresh.get("between", {}))
            used = self._machines.used(lifetimes, clocks)
            view = JobView(
                self.asked_as(job),
                ranks,
                process_lifetimes=lifetimes,
                steps=steps,
                time_windows=self._time_windows(job, snapshot, fresh, clocks, ranks, steps, needed),
                events=events,
                watched=self._watched(of_nodes, lifetimes, clocks),
                clocks=clocks,
                machines={**self._name_ids.machines(), **{node: use.machine for node, use in used.items()}},
                metrics=self._name_ids.metrics_by_set(job),
                parts=self._deltas.part_totals(job, snapshot.segments, _by_stretch(snapshot, fresh), clocks),
                recordings=self._name_ids.recordings,
                facts=facts_of(events),
                settled=self._clocks.settled(job),
                tags=self.tags_of(job),
                between=on_server_clock(between, clocks),
                machine_notes=list(dict.fromkeys(note for use in used.values() for note in use.notes)),
                removed=removed,
                damaged=self._reader.damaged_of(snapshot.segments),
            )
            with kept.lock:
                view = told_apart(as_they_turned_out(view), self._name_ids.nodes)
                return kept.view(with_breaks(view))

    def raw(self, job: str) -> RawData | None:
        """Where the raw data of a job lies now; None when the job is not known."""
        ranks = self.ranks_of(job)
        if not ranks:
            return None
        job = self._kept_as(job)
        lease = self._leases.take()
        with self._tail.lock:
            own, of_nodes = self._snapshot(job), self._snapshot(NODE_JOB)
            lifetimes = self._tail.lifetimes_of(ranks)
        clocks = self._clocks.of_job(job, lifetimes)
        return RawData(
            reader=self._reader,
            segments=own.segments,
            frames=own.frames,
            node_segments=of_nodes.segments,
            node_frames=of_nodes.frames,
            clocks=clocks,
            ranks=ranks,
            process_lifetimes=lifetimes,
            machines=self._name_ids.machines(),
            kernels=self._name_ids.kernels(),
            metrics=self._name_ids.metrics_by_set(job),
            lease=lease,
        )

    def damaged_of(self, job: str) -> dict[str, int]:
        """See `Store.damaged_of`."""
        return self._reader.damaged_of(self._catalog.segments(self._kept_as(job)))

    def _snapshot(self, job: str, nodes: Collection[int] | None = None) -> Snapshot:
        """nodes: of what is not sealed, that of these alone; None: of all."""
        unsealed = self._tail.of_job(job, nodes)
        return Snapshot(self._catalog.segments(job), self._catalog.progress(job), unsealed)

    def _steps(
        self,
        job: str,
        snapshot: Snapshot,
        fresh: Mapping[str, Table],
        clocks: Clocks,
        needed: Needed | None,
        kept: Kept,
    ) -> dict[str, Table]:
        """Step tables: what is stored, and the same made now of what is younger. kept: of these, from a
        earlier question."""
        stored: dict[str, list[Segment]] = {}
        for segment in snapshot.segments:
            if segment.dataset.startswith(STEPS):
                stored.setdefault(segment.dataset, []).append(segment)
        # Who asks for the same meanwhile waits, and does not read it again.
        with kept.lock:
            if kept.new is None:
                kept.new = self._new_steps(job, snapshot, fresh, clocks)
            found = {}
            for name in stored.keys() | kept.new.keys():
                if needed is not None and name not in needed:
                    continue
                some = None if needed is None else needed[name]
                wanted = Wanted(name, None if some is None else (*STEP_KEYS, *some))
                read = partial(self._sources, stored.get(name, ()), kept.new.get(name, {}), wanted.columns)
                # Without rows where all files of it are damaged.
                if rows(table := kept.table(wanted, read)):
                    found[name] = table
            return found

    def _sources(
        self, stored: Sequence[Segment], new: Table, columns: Sequence[str] | None
    ) -> list[RowSource]:
        """What a step table is made of; columns None: all."""
        made = {name: column for name, column in new.items() if columns is None or name in columns}
        found = self._reader.sources(stored, columns, STEP_KEYS)
        return [*found, source_of(made, STEP_KEYS)] if rows(made) else found

    def _new_steps(
        self, job: str, snapshot: Snapshot, fresh: Mapping[str, Table], clocks: Clocks
    ) -> dict[str, Table]:
        """Step tables of windows that are not stored. Mostly there are none of a job that is over: then
        nothing but its last marks is read."""
        progress, deltas = snapshot.progress, self._deltas
        since_ns = deltas.since_ns(job, fresh.get("marks", {}), progress, clocks)

        def raw(wanted: Callable[[str], bool], since_ns: int) -> JobTables:
            segments = deltas.needed(snapshot.segments, since_ns)
            stored = {name: some for name, some in segments.items() if wanted(name)}
            unsealed = {name: some for name, some in fresh.items() if wanted(name)}
            return deltas.job_tables(job, stored, unsealed, progress, clocks, since_ns)

        marked = raw("marks".__eq__, since_ns)
        begin_ns = deltas.begin_ns(job, marked, progress, since_ns, None)
        if begin_ns is None:
            return {}
        if begin_ns < since_ns:
            marked = raw("marks".__eq__, begin_ns)
        others = raw("marks".__ne__, begin_ns)
        found, _, _ = deltas.new_steps(job, others._replace(marks=marked.marks), progress, None)
        return found

    def _time_windows(
        self,
        job: str,
        snapshot: Snapshot,
        fresh: Mapping[str, Table],
        clocks: Clocks,
        ranks: Mapping[int, RankKey],
        steps: Mapping[str, Table],
        needed: Needed | None,
    ) -> dict[str, Table]:
        """Windows of equal time for the ranks without any step."""
        stepping = distinct(steps["steps"]["rank"]) if "steps" in steps else []
        without = ranks.keys() - set(stepping)
        if not without:
            return {}
        return self._deltas.by_time(job, snapshot.segments, fresh, clocks, without, needed)

    def _watched(
        self, of_nodes: Snapshot, lifetimes: Mapping[Incarnation, Lifetime], clocks: Clocks
    ) -> dict[int, Table]:
        """Events of the nodes of these processes. Each batch is one, of every node as long as the server
        keeps any job: only files from the time of these processes are read."""
        homes = {who.node for who in lifetimes}
        if not homes:
            return {}
        extents = extents_of(lifetimes)
        first = min(moment(clocks[node], first_ns) for node, (first_ns, _) in extents.items())
        last = max(moment(clocks[node], last_ns) for node, (_, last_ns) in extents.items())
        near = [one for one in of_nodes.segments if one.overlaps(first, last)]
        events = self._all("events", near, unsealed(of_nodes.frames, "events"))
        if not rows(events):
            return {}
        events = take(events, np.argsort(events["node"], kind="stable"))
        of = events["node"]
        begins, ends = np.searchsorted(of, sorted(homes)), np.searchsorted(of, sorted(homes), side="right")
        return {
            node: {name: column[begin:end] for name, column in events.items()}
            for node, begin, end in zip(sorted(homes), begins.tolist(), ends.tolist(), strict=True)
        }

    def _all(self, dataset: str, segments: Sequence[Segment], fresh: Table) -> Table:
        stored = self._reader.read(s for s in segments if s.dataset == dataset)
        return concatenate([stored, fresh])


def _by_stretch(snapshot: Snapshot, fresh: Mapping[str, Table]) -> list[Mapping[str, Table]]:
    """What is not sealed yet, a table a dataset and stretch; fresh: all of it together."""
    parts = stretches(snapshot.fresh)
    return [fresh] if len(parts) == 1 else [by_dataset(frames_of(part)) for part in parts]
