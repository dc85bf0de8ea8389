"""The store as a whole: takes batches durably, seals them into segments, hands out what a job has.

A batch lives in the inbox (durable) and in the tail (decoded, in memory) until a sealing puts it into
segments. Step deltas are made at sealing for all windows whose data must be complete by then (every node of
the job has reported beyond them, and its clock is known) and never change, unless a node reports late: then
the job's deltas are rebuilt from its segments. What is younger is correlated when asked for, by the same
function.
"""

from __future__ import annotations

import copy
import logging
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy.exc

from ..errors import ServerError
from ..records import ClockSample, DecodedBatch, Incarnation, Limit, Machine, NodeKey, RankKey, Removed
from .catalog.catalog import Catalog, sqlite_url
from .catalog.clocks import ClockRegistry, Clocks, moment, server_time
from .catalog.integrity import cause_of, refuse_damaged
from .catalog.machines import Machines, MachineVersion
from .catalog.name_ids import NameIds
from .catalog.owners import Owners
from .catalog.process_lifetimes import ProcessLifetimes
from .catalog.tags import Tags
from .identity import CATALOG, agree, note_place
from .intake.entries import Entry
from .intake.inbox import Inbox
from .intake.lineages import Known
from .intake.tail import Tail
from .later import refuse_later
from .raw_data import RawData
from .recovery import Decode, Recovery
from .retention.apply import Retention
from .sealing.process import SealingProcess, is_large, writer_of
from .sealing.sealer import Sealer
from .segments.leases import Leases
from .segments.reader import Reader
from .steps.deltas import Deltas, Needed
from .steps.kept import KeptSteps
from .steps.sealed import SealedSteps
from .usable import usable
from .view import JobView
from .view_builder import ViewBuilder
from .wal import warn_of_damaged_logs

log = logging.getLogger(__name__)

__all__ = ["Decode", "Needed", "Store"]


class Store:
    """One data directory."""

    def __init__(
        self, root: Path, decode: Decode, catalog_url: str = "", process: SealingProcess | None = None
    ) -> None:
        """Open or create. process: writes the files of large sealings; None: this one writes all. Raises
        Unavailable when the directory cannot be used."""
        self._root, self._process = root, process
        self._sealing = threading.Lock()
        with usable(root):
            root.mkdir(parents=True, exist_ok=True)
            refuse_later(root)
            warn_of_damaged_logs(root)
            self._inbox = Inbox(root / "inbox.db")
            self.checkpoint = self._inbox.checkpoint
            note_place(root, self._inbox, catalog_url)
            if not catalog_url:
                refuse_damaged(root / CATALOG)
            self._catalog = Catalog(catalog_url or sqlite_url(root / CATALOG))
            self._identity = agree(root, self._catalog, self._inbox)
            self._open()
            Recovery(
                root=root,
                catalog=self._catalog,
                inbox=self._inbox,
                identity=self._identity,
                name_ids=self.name_ids,
                tail=self._tail,
                remember=self._remember,
            ).take_up(decode)

    def _open(self) -> None:
        root = self._root
        reader, leases = Reader(root), Leases(root)
        self.damaged = reader.damaged  # path -> why, of the segments that were found to be
        self.name_ids = NameIds(self._catalog, self._moment)
        self.now_ns = server_time(self._catalog)
        processes = ProcessLifetimes(self._catalog.process_lifetimes(), self.name_ids.ranks())
        self._tail = Tail(processes)
        self._clocks = ClockRegistry(self._catalog, self.name_ids)
        self._tags, self._owners = Tags(self._catalog), Owners(self._catalog)
        self._limit: Limit | None = None  # of who asks, see `seen_by`
        self.machines = Machines(self._catalog, self.name_ids.nodes(), self._began)
        deltas = Deltas(self.name_ids, reader, self._members)
        steps = SealedSteps(self._catalog, reader, self.name_ids, self._clocks.settled, deltas, self._members)
        self._sealer = Sealer(
            root=root,
            catalog=self._catalog,
            inbox=self._inbox,
            tail=self._tail,
            name_ids=self.name_ids,
            clocks=self._clocks,
            members=self._members,
            leases=leases,
            damaged=self.damaged,
            writer=writer_of(root, self._process),
            identity=self._identity,
        )
        self.retention = Retention(
            root=root,
            catalog=self._catalog,
            tail=self._tail,
            clocks=self._clocks,
            deltas=deltas,
            steps=steps,
            leases=leases,
            tags=self._tags,
            sealing=self._sealing,
            now_ns=self.now_ns,
            run_called=self.run_called,
            keep_copy=lambda: self._sealer.keep_copy(always=True),
            identity=self._identity,
        )
        kept = KeptSteps()
        self.forget = kept.forget
        self._views = ViewBuilder(
            catalog=self._catalog,
            reader=reader,
            tail=self._tail,
            name_ids=self.name_ids,
            clocks=self._clocks,
            deltas=deltas,
            machines=self.machines,
            tags=self._tags,
            leases=leases,
            kept=kept,
        )

    def _moment(self, node: int, node_ns: int) -> int | None:
        offset_ns = self._clocks.offset_about(node)
        return None if offset_ns is None else node_ns + offset_ns

    def _began(self, node: int) -> int | None:
        """When a rank was first reported on a node, server time."""
        lifetimes = self._tail.now().process_lifetimes
        firsts = [lifetime.first_ns for who, lifetime in lifetimes.items() if who.node == node]
        return moment(self._clocks.clocks()[node], min(firsts)) if firsts else None

    def _members(self, job: str) -> list[Incarnation]:
        return self._tail.members(self.ranks_of(job))

    # -- ingest ------------------------------------------------------------------------------------

    def hello(self, key: NodeKey, machine: Machine) -> int:
        """The id of a node that has just sent Hello, and has not booted too often."""
        (node,) = self.hellos([(key, machine)])
        assert node is not None
        return node

    def hellos(self, reports: Sequence[tuple[NodeKey, Machine]]) -> list[int | None]:
        """The ids of several nodes that have just sent Hello, which takes hardly longer than one; None: it
        has booted too often. Raises Unavailable where the catalog cannot be written."""
        with usable(self._root):
            nodes = self.name_ids.node_ids(dict(reports))
            known = [(key, nodes[key], machine) for key, machine in reports if key in nodes]
            self.machines.add_reports(known, self.now_ns())
        return [nodes.get(key) for key, _ in reports]

    def acked(self, agent: str, lineage: str = "") -> int:
        """Highest durable sequence of a lineage of an agent; 0 when it is unknown."""
        return self._inbox.acked(agent, lineage)

    def known(self, entry: Entry) -> Known:
        """Whether a batch that comes was kept before, or another with its number."""
        return self._inbox.known(entry)

    def commit(self, batches: Sequence[tuple[Entry, DecodedBatch]]) -> list[Entry]:
        """Make batches durable; those already known are ignored. Returns those that were not kept because
        others have their numbers. Raises sqlite3.Error: none was taken."""
        decoded: dict[tuple[str, str, int], DecodedBatch] = {}
        for entry, batch in batches:
            decoded.setdefault((entry.agent, entry.lineage, entry.sequence), batch)
        self.name_ids.save()
        # One committer at a time: ids must reach the tail in the order they were given.
        stored = self._inbox.commit(entry for entry, _ in batches)
        with self._tail.lock:
            for entry in stored:
                self._remember(entry, decoded[entry.agent, entry.lineage, entry.sequence])
        if len(stored) == len(batches):
            return []
        return [entry for entry, _ in batches if self._inbox.known(entry) == Known.TAKEN]

    def _remember(self, entry: Entry, decoded: DecodedBatch) -> None:
        self._tail.add(entry, decoded)
        self._owners.add(decoded.owners)
        self._clocks.add_arrival(entry.node, decoded.end_ns, entry.received_ns)
        self._tags.add(decoded, lambda: self._clocks.clocks()[entry.node])

    def add_arrival(self, node: int, sent_ns: int, received_ns: int) -> None:
        """Take when a message of a node arrived that was sent at sent_ns of its time."""
        self._clocks.add_arrival(node, sent_ns, received_ns)

    def began_ns(self, node: int) -> int:
        """Server time at which a node was started: its time 0; where its clock is not known, now."""
        return moment(self._clocks.clock(node), 0) if self._clocks.knows(node) else self.now_ns()

    def expect(self, node: int, begin_ns: int, end_ns: int) -> None:
        """A node sends what lies between these node times with what is younger: step deltas wait for it.
        0 and 0: nothing more."""
        self._tail.expect(node, begin_ns, end_ns)

    def add_clock_sample(self, node: int, sample: ClockSample) -> None:
        """Take a clock exchange of a node; it becomes durable with the next sealing."""
        self._clocks.add_sample(node, sample)

    # -- sealing -----------------------------------------------------------------------------------

    @property
    def unsealed_bytes(self) -> int:
        """Memory that the batches take that are not sealed yet."""
        return self._tail.bytes

    @property
    def job_ended(self) -> bool:
        """Whether Slurm has ended a job since the last sealing."""
        return self._tags.job_ended

    def unsealed_bytes_of(self, node: int) -> int:
        """Memory that the batches of one node take that are not sealed yet."""
        return self._tail.bytes_of[node]

    @property
    def unsealed_nodes(self) -> int:
        """How many nodes have sent what is not sealed yet."""
        return len(self._tail.bytes_of)

    def seal(self) -> int:
        """Move what is in the inbox into segments; returns how many batches. Safe to be killed anywhere."""
        with self._sealing:
            self.name_ids.save()
            self._clocks.save()
            self._tags.save()
            self._owners.save()
            return self._sealer.seal()

    # -- reading -----------------------------------------------------------------------------------

    def seen_by(self, limit: Limit | None) -> Store:
        """This store for somebody about whom this is known: runs beyond the limit are not there."""
        if limit is None:
            return self
        found = copy.copy(self)
        found._limit = limit
        found._views = self._views.only(lambda run: limit.allows(run, self._owners.of(run)))
        return found

    def clocks(self) -> Clocks:
        """The clocks of all nodes, as they are known now."""
        return self._clocks.clocks()

    def jobs(self) -> set[str]:
        """All jobs of which something is kept."""
        return self._views.jobs()

    def newest_jobs(self) -> list[str]:
        """All jobs of which something is kept, as one asks for them; first that of which a rank became known
        last."""
        newest_first = sorted(self.jobs(), key=lambda job: max(self.ranks_of(job)), reverse=True)
        return list(map(self.asked_as, newest_first))

    def asked_as(self, run: str) -> str:
        """How to ask for a run, so that no other is meant: the first of several is "42/1"."""
        return self._views.asked_as(run)

    def run_called(self, job: str) -> str | None:
        """The name of the run that somebody means who asks for a job: the newest of "42", the first of
        "42/1"; None when nothing of it is kept."""
        return self._views.run_called(job)

    def newest_batch_of(self, run: str) -> int:
        """The id of the newest batch that holds something of a run; 0: none since the server started."""
        return self._tail.newest_of(run)

    def ranks_of(self, job: str) -> dict[int, RankKey]:
        """The ranks of a job of which something is kept, by their ids."""
        return self._views.ranks_of(job)

    def tags(self, job: str) -> dict[str, str]:
        """A job's tags by name."""
        return self._views.tags_of(job)

    def owners_of(self, job: str) -> list[str]:
        """Who submitted ranks of a job, by name. Who may not see all jobs sees no name but his own."""
        limit = self._limit
        return sorted(one for one in self._owners.of(job) if limit is None or one == limit.user)

    def jobs_tagged(self, name: str, value: str) -> list[str]:
        """The jobs whose tag `name` is `value`, in order of their ids."""
        return self._views.jobs_tagged(name, value)

    def machine_versions(self) -> list[MachineVersion]:
        """All versions of all machines with the jobs reported against them; by host, newest first."""
        return self._views.machine_versions()

    def overview(self, job: str) -> JobView:
        """Who takes part in a job and since when, without its data."""
        return self._views.overview(job)

    def view(self, job: str, needed: Needed | None = None) -> JobView | None:
        """What is known of a job up to now; None when nothing of it is kept.

        needed: which step tables are wanted and which of their columns besides the keys (None: all of them);
        default everything.
        """
        return self._views.view(job, needed)

    def raw(self, job: str) -> RawData | None:
        """Where the raw data of a job lies now; None when nothing of it is kept."""
        return self._views.raw(job)

    def damaged_of(self, job: str) -> dict[str, int]:
        """Files of a job that were found to be damaged or missing until now, and how many rows they had."""
        return self._views.damaged_of(job)

    def removed(self, job: str) -> Removed | None:
        """What retention removed of a job; None: nothing."""
        return self._catalog.removed(job)

    def all_removed(self) -> dict[str, Removed]:
        """What retention removed of each job of which it removed something."""
        return self._catalog.all_removed()

    def kept_report(self, job: str) -> bytes | None:
        """The report of a job from before its step deltas were removed, as it was encoded; None: none is."""
        return self._catalog.kept_report(job)

    def cause_of(self, error: Exception) -> str:
        """Why something could not be written, in one line."""
        return cause_of(error, self._root)

    @staticmethod
    def own_fault(error: Exception) -> Exception | None:
        """The error, for a log with its traceback, if it is a fault of this program; None if one of the disk
        or a database, of which `cause_of` says all."""
        outside = (OSError, sqlite3.Error, sqlalchemy.exc.SQLAlchemyError, ServerError)
        return None if isinstance(error, outside) else error

    def close(self) -> None:
        """Seal what is left, where that takes little time and the disk takes it, and let go of the files."""
        if self._process is not None:
            self._process.stop()
        self.retention.close()
        try:
            if self._process is not None and is_large(self.unsealed_bytes):
                log.info("what is not sealed stays in the inbox: the next start seals it")
            elif self.seal():
                self._sealer.keep_copy(always=True)
        except (OSError, sqlite3.Error, sqlalchemy.exc.SQLAlchemyError) as error:
            why = self.cause_of(error)
            log.error("cannot seal at the end (%s); the data stays in the inbox for the next start", why)
        self._inbox.close()
        self._catalog.close()
