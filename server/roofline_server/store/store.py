"""The store as a whole: takes batches durably, seals them into segments, hands out what a job has.

A batch lives in the inbox (durable) and in the tail (decoded, in memory) until a sealing puts it into
segments. Step deltas are made at sealing for all windows whose data must be complete by then (every node of
the job has reported beyond them) and never change, unless a node reports late: then the job's deltas are
rebuilt from its segments. What is younger is correlated when asked for, by the same function.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import sqlalchemy.exc

from ..clock import NodeClock
from ..correlate import windows as step_windows
from ..correlate.steps import JobTables
from ..errors import Unavailable
from ..ingest.decode import Decoded
from ..records import (
    NODE_JOB,
    Frame,
    Incarnation,
    Knot,
    Machine,
    NodeKey,
    RankKey,
    Table,
    concatenate,
    rows,
    take,
)
from .catalog import Catalog, Life, Progress, Sealing, sqlite_url
from .clocks import ClockBook, Clocks, server_time
from .deltas import Deltas, Snapshot
from .export import RawData
from .inbox import Entry, Inbox
from .lives import LifeBook, changed
from .machines import Machines, Version
from .numbers import Numbers
from .reader import Reader, by_dataset, on_server_clock
from .segments import Segment, sweep, write
from .tags import Tags
from .view import JobView, facts_of

log = logging.getLogger(__name__)

# A node silent for longer no longer holds up the step deltas of its job; what it brings later rebuilds them.
SILENT_NS = 600_000_000_000

# In every step table that has them: who, which step, when, of which incarnation, on how many samples.
STEP_KEYS = ("rank", "window", "step", "begin_ns", "end_ns", "start_ns", "samples")

# What odd data raise; a full disk or a broken catalog is something else.
DATA_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

Decode = Callable[[Entry, Numbers], Decoded]
# Step table -> its columns that are wanted beside the keys; None: all.
Needed = Mapping[str, Sequence[str] | None]


class TailBatch(NamedTuple):
    """A batch that is durable but not sealed."""

    id: int
    bytes: int
    decoded: Decoded


class Store:
    """One data directory."""

    def __init__(self, root: Path, decode: Decode, catalog_url: str = "") -> None:
        """Open or create. Raises Unavailable when the directory cannot be used."""
        self._root = root
        self._decode = decode
        self._lock = threading.RLock()
        self._sealing = threading.Lock()
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._catalog = Catalog(catalog_url or sqlite_url(root / "catalog.db"))
            self._inbox = Inbox(root / "inbox.db")
            self._reader = Reader(root)
        except (OSError, ImportError, sqlite3.Error, sqlalchemy.exc.SQLAlchemyError, duckdb.Error) as error:
            raise Unavailable(f"cannot use the data directory {root}: {_first_line(error)}") from None
        self.numbers = Numbers(self._catalog)
        self._deltas = Deltas(self.numbers, self._reader, self._members)
        self._clocks = ClockBook(self._catalog, self.numbers)
        self.now_ns = server_time(self._catalog)
        self._lives = LifeBook(self._catalog.lives(), self.numbers.ranks())
        self._tags = Tags(self._catalog)
        self.machines = Machines(self._catalog, self.numbers.nodes(), self._began)
        self._tail: list[TailBatch] = []
        self.unsealed_bytes = 0
        self._recover()

    def _began(self, node: int) -> int | None:
        """When a rank was first heard of on a node, server time."""
        firsts = [life.first_ns for who, life in self._lives.now().items() if who.node == node]
        return _moment(self._clocks.clocks()[node], min(firsts)) if firsts else None

    def _recover(self) -> None:
        sealed = self._catalog.sealed_through()
        self._inbox.delete(sealed)
        removed = sweep(self._root, self._catalog.paths())
        for entry in self._inbox.after(sealed):
            self._remember(entry, self._decode(entry, self.numbers))
        if self._tail or removed:
            log.info("recovered %d unsealed batches, removed %d unfinished files", len(self._tail), removed)

    # -- ingest ------------------------------------------------------------------------------------

    def hello(self, key: NodeKey, machine: Machine) -> int:
        """Number of a node that has just said hello."""
        node = self.numbers.node(key, machine)
        self.machines.heard(key, node, machine, self.now_ns())
        return node

    def acked(self, agent: str) -> int:
        return self._inbox.acked(agent)

    def commit(self, batches: Sequence[tuple[Entry, Decoded]]) -> None:
        """Make batches durable; those already known are ignored. Raises sqlite3.Error: none was taken."""
        decoded = {(entry.agent, entry.sequence): what for entry, what in batches}
        # One committer at a time: ids must reach the tail in the order they were given.
        stored = self._inbox.commit(entry for entry, _ in batches)
        with self._lock:
            for entry in stored:
                self._remember(entry, decoded[entry.agent, entry.sequence])

    def _remember(self, entry: Entry, decoded: Decoded) -> None:
        node = entry.node
        self._tail.append(TailBatch(entry.id, len(entry.data), decoded))
        self.unsealed_bytes += len(entry.data)
        self._lives.take(node, decoded)
        self._clocks.arrived(node, decoded.end_ns, entry.received_ns)
        self._tags.take(decoded, lambda: self._clocks.clocks()[node])

    def add_knot(self, node: int, knot: Knot) -> None:
        """Take a clock exchange of a node; it becomes durable with the next sealing."""
        self._clocks.add_knot(node, knot)

    # -- sealing -----------------------------------------------------------------------------------

    def seal(self) -> int:
        """Move what is in the inbox into segments; returns how many batches. Safe to be killed anywhere."""
        with self._sealing:
            self._clocks.save()
            self._tags.save()
            with self._lock:
                batches = list(self._tail)
                lives = self._lives.now()
                reported = dict(self._lives.through)
            if not batches:
                return 0
            by_job: dict[str, list[Frame]] = {}
            for batch in batches:
                for frame in batch.decoded.frames:
                    by_job.setdefault(frame.job, []).append(frame)
            through_id = batches[-1].id
            sealing = Sealing([], [], {}, changed(lives, (batch.decoded for batch in batches)), through_id)
            for job, frames in by_job.items():
                sealing = self._seal_job(job, frames, reported, sealing)
            with self._lock:
                self._catalog.seal(sealing)
                self._tail = [batch for batch in self._tail if batch.id > through_id]
                self.unsealed_bytes -= sum(batch.bytes for batch in batches)
            self._inbox.delete(through_id)
            for path in sealing.replaced:
                (self._root / path).unlink(missing_ok=True)
            return len(batches)

    def _seal_job(self, job: str, frames: list[Frame], reported: dict[int, int], sealing: Sealing) -> Sealing:
        """Segments of a job's frames and of those step deltas that are complete by now."""
        clocks = self.clocks()
        raw = by_dataset(frames)
        segments = [
            self._write(job, name, table, clocks, sealing) for name, table in raw.items() if rows(table)
        ]
        if job == NODE_JOB:
            return sealing._replace(segments=[*sealing.segments, *segments])
        for name, table in self._deltas.parts(raw, clocks).items():
            segments.append(self._write(job, f"parts_{name}", table, None, sealing))
        try:
            made, replaced, progress = self._seal_steps(job, frames, raw, clocks, reported, sealing)
        except DATA_ERRORS:
            # What this job holds cannot be understood; that is no reason to keep all others in the inbox.
            log.exception("job %s: its step deltas cannot be made; its raw data are kept", job)
            made, replaced, progress = [], [], self._catalog.progress(job)
        return sealing._replace(
            segments=[*sealing.segments, *segments, *made],
            replaced=[*sealing.replaced, *replaced],
            progress={**sealing.progress, job: progress},
        )

    def _seal_steps(
        self,
        job: str,
        frames: list[Frame],
        raw: dict[str, Table],
        clocks: Clocks,
        reported: dict[int, int],
        sealing: Sealing,
    ) -> tuple[list[Segment], list[str], Progress]:
        """Segments of the step deltas that are complete by now, those they replace, and how far they go."""
        progress, replaced, segments = self._catalog.progress(job), [], []
        if self._deltas.is_outdated(job, progress, raw, clocks):
            log.info("job %s: a node or a server reported late, its step deltas are rebuilt", job)
            replaced = [s.path for s in self._catalog.segments(job) if s.dataset.startswith("steps")]
            progress = Progress()
        tables = self._deltas.raw(job, frames, self._catalog.segments(job), progress, clocks)
        through = self._complete_through(job, clocks, reported)
        if through > progress.through_ns:
            fresh, latest = self._deltas.fresh(tables, progress, through)
            if "steps" in fresh:
                self._clocks.settle(job, fresh["steps"], tables.homes, anew=not progress.through_ns)
            for name, table in fresh.items():
                segments.append(self._write(job, name, table, None, sealing))
            resume = step_windows.last_needed(tables.marks, step_windows.build(tables.marks), through)
            # An open step of a rank that died must not hold the rest back for ever.
            resume = max(resume, through - SILENT_NS)
            progress = Progress(through, resume, {**progress.done, **latest}, self._deltas.serving(job))
        return segments, replaced, progress

    def _write(
        self, job: str, dataset: str, table: Table, clocks: Clocks | None, sealing: Sealing
    ) -> Segment:
        timed = table if clocks is None else on_server_clock(table, clocks)
        begin = timed["time_ns"] if "time_ns" in timed else timed["begin_ns"]
        end = timed.get("end_ns", begin)
        return write(
            self._root,
            job,
            dataset,
            sealing.through_id,
            table,
            int(begin.min()),
            int(end.max()),
        )

    def _members(self, job: str) -> list[Incarnation]:
        ranks = self.ranks_of(job)
        with self._lock:
            return self._lives.members(ranks)

    def _complete_through(self, job: str, clocks: Clocks, reported: dict[int, int]) -> int:
        """Server time up to which all nodes of the job have reported everything."""
        nodes = {who.node for who in self._members(job)}
        moments = [_moment(clocks[node], reported.get(node, 0)) for node in nodes]
        heard = [t for t in moments if t > max(moments, default=0) - SILENT_NS]
        return min(heard, default=0) - self._deltas.margin_ns(job)

    # -- reading -----------------------------------------------------------------------------------

    def clocks(self) -> Clocks:
        """The clocks of all nodes, as they are known now."""
        return self._clocks.clocks()

    def jobs(self) -> set[str]:
        """All jobs ever heard of."""
        return {job for job in self.numbers.jobs() if self.ranks_of(job)}

    def ranks_of(self, job: str) -> dict[int, RankKey]:
        """The ranks of a job of which something is kept, by their numbers."""
        numbered = self.numbers.ranks_of(job)
        return {number: key for number, key in numbered.items() if self._lives.has_heard(number)}

    def tags(self, job: str) -> dict[str, str]:
        """What a job is said to be, by name."""
        return self._tags.of(job)

    def jobs_tagged(self, name: str, value: str) -> list[str]:
        """The jobs whose tag `name` is `value`, in order of their ids."""
        return self._tags.jobs(name, value)

    def machine_versions(self) -> list[Version]:
        """All versions of all machines with the jobs reported against them; by host, newest first."""
        homes = {number: job for job in self.jobs() for number in self.ranks_of(job)}
        with self._lock:
            lives = self._lives.now()
        by_job: dict[str, dict[Incarnation, Life]] = {}
        for who, life in lives.items():
            if who.rank in homes:
                by_job.setdefault(homes[who.rank], {})[who] = life
        return self.machines.versions(by_job, self.clocks())

    def overview(self, job: str) -> JobView:
        """Who takes part in a job and since when, without its data."""
        ranks = self.ranks_of(job)
        with self._lock:
            lives = self._lives.of(ranks)
        machines, tags = self.numbers.machines(), self.tags(job)
        return JobView(job, ranks, lives, {}, {}, {}, {}, self.clocks(), machines, {}, tags=tags)

    def view(self, job: str, needed: Needed | None = None) -> JobView | None:
        """What is known of a job up to now; None when nobody has heard of it.

        needed: which step tables are wanted and which of their columns beside the keys (None: all of them);
        default everything.
        """
        if not self.ranks_of(job):
            return None
        clocks = self.clocks()
        with self._lock:
            # After this a rank may come of which the snapshot holds nothing, never the other way about.
            ranks = self.ranks_of(job)
            snapshot = self._snapshot(job)
            nodes = self._snapshot(NODE_JOB)
            lives = self._lives.of(ranks)
        if self._deltas.is_outdated(job, snapshot.progress, by_dataset(snapshot.frames), clocks):
            raw = [s for s in snapshot.segments if not s.dataset.startswith("steps")]
            snapshot = Snapshot(raw, Progress(), snapshot.frames)
        tables = self._deltas.raw(job, snapshot.frames, snapshot.segments, snapshot.progress, clocks)
        steps = self._steps(snapshot, tables, needed)
        events = on_server_clock(self._all("events", snapshot), clocks)
        used = self.machines.used(lives, clocks)
        return JobView(
            job,
            ranks,
            lives,
            steps,
            self._deltas.stepless(job, snapshot, steps, set(ranks), clocks),
            events,
            self._watched(nodes, {who.node for who in lives}),
            clocks,
            {**self.numbers.machines(), **{node: use.machine for node, use in used.items()}},
            self.numbers.metrics_by_set(),
            self._deltas.part_totals(snapshot, clocks),
            self.numbers.recordings,
            facts_of(events),
            self._clocks.settled(job),
            self.tags(job),
            list(dict.fromkeys(use.note for use in used.values() if use.note)),
        )

    def raw(self, job: str) -> RawData | None:
        """Where the raw data of a job lies now; None when nobody has heard of it."""
        ranks = self.ranks_of(job)
        if not ranks:
            return None
        clocks = self.clocks()
        with self._lock:
            own, nodes = self._snapshot(job), self._snapshot(NODE_JOB)
            lives = self._lives.of(ranks)
        names = self.numbers
        return RawData(
            *(self._root, own.segments, own.frames, nodes.segments, nodes.frames, clocks, ranks, lives),
            *(names.machines(), names.kernels(), names.metrics_by_set()),
        )

    def _snapshot(self, job: str) -> Snapshot:
        frames = [f for batch in self._tail for f in batch.decoded.frames if f.job == job]
        return Snapshot(self._catalog.segments(job), self._catalog.progress(job), frames)

    def _steps(self, snapshot: Snapshot, tables: JobTables, needed: Needed | None) -> dict[str, Table]:
        fresh, _ = self._deltas.fresh(tables, snapshot.progress, None)
        stored = {s.dataset for s in snapshot.segments if s.dataset.startswith("steps")}
        found = {}
        for name in stored | fresh.keys():
            if needed is not None and name not in needed:
                continue
            some = None if needed is None else needed[name]
            wanted = None if some is None else (*STEP_KEYS, *some)
            kept = self._reader.read((s for s in snapshot.segments if s.dataset == name), wanted)
            new = fresh.get(name, {})
            found[name] = concatenate([kept, {n: c for n, c in new.items() if wanted is None or n in wanted}])
        return found

    def _all(self, dataset: str, snapshot: Snapshot) -> Table:
        stored = self._reader.read(s for s in snapshot.segments if s.dataset == dataset)
        return concatenate([stored, *(f.table for f in snapshot.frames if f.dataset == dataset)])

    def _watched(self, nodes: Snapshot, wanted: set[int]) -> dict[int, Table]:
        events = self._all("events", nodes)
        if not rows(events):
            return {}
        return {node: take(events, events["node"] == node) for node in wanted}

    def close(self) -> None:
        """Seal what is left and let go."""
        self.seal()
        self._inbox.close()
        self._catalog.close()
        self._reader.close()


def _moment(clock: NodeClock, node_ns: int) -> int:
    return int(clock.to_server(np.array([node_ns], np.int64))[0])


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0]
