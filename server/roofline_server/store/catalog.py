"""The catalog: which segments there are, what the small numbers in them mean, how far work has come.

SQLite by default; anything SQLAlchemy speaks by URL. One transaction makes a sealing visible: its segments,
the progress of the step deltas, and the inbox rows they replace, all or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa

from ..records import (
    Ceiling,
    Incarnation,
    KernelKind,
    Knot,
    Machine,
    Metric,
    NodeKey,
    RankKey,
    SourceStatus,
)
from .segments import Segment
from .tables import (
    ARRIVAL,
    INCARNATION,
    KERNEL,
    KNOT,
    MACHINE,
    META,
    METRIC,
    NODE,
    PROGRESS,
    RANK,
    SEGMENT,
    SETTLED,
    STATE,
    TAG,
)
from .versions import Saying


class Progress(NamedTuple):
    """Step deltas of a job are stored for windows that end up to through_ns; later ones need the raw data
    from resume_ns on. Server times."""

    through_ns: int = 0
    resume_ns: int = 0
    # (rank, node that spoke) -> node time at which its newest stored step ended
    done: Mapping[tuple[int, int], int] = MappingProxyType({})
    serving: tuple[int, ...] = ()  # ranks that serve others and were known then

    @property
    def stepped(self) -> frozenset[int]:
        """Ranks with stored steps of their own."""
        return frozenset(rank for rank, _ in self.done)


class Life(NamedTuple):
    """When an incarnation was seen, server times, and whether its end was."""

    first_ns: int
    last_ns: int
    exited: bool


class Sealing(NamedTuple):
    """Everything one sealing changes."""

    segments: list[Segment]
    replaced: list[str]  # paths of step segments that a rebuild made obsolete
    progress: dict[str, Progress]
    lives: dict[Incarnation, Life]
    through_id: int


class Catalog:
    """All reads and writes of the catalog. Safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url)
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", _durable)
        META.create_all(self._engine)

    def close(self) -> None:
        self._engine.dispose()

    def numbers(
        self,
    ) -> tuple[dict[NodeKey, int], dict[RankKey, int], dict[KernelKind, int], dict[tuple[str, str], Metric]]:
        """All names that have numbers: nodes, ranks, kernels; and the metrics by (counter set, name)."""
        with self._engine.connect() as db:
            nodes = {NodeKey(r.agent, r.boot): r.id for r in db.execute(sa.select(NODE))}
            ranks = {RankKey(*r[1:]): r[0] for r in db.execute(sa.select(RANK))}
            kernels = {KernelKind(*r[1:]): r[0] for r in db.execute(sa.select(KERNEL))}
            metrics = {}
            for r in db.execute(sa.select(METRIC)):
                metrics[r.counter_set, r.name] = Metric(
                    r.counter_set,
                    r.name,
                    r.kind,
                    r.unit,
                    r.scope,
                    r.provenance,
                    bool(r.is_double),
                    r.coverage_of,
                )
            return nodes, ranks, kernels, metrics

    def add_node(self, key: NodeKey, machine: Machine) -> int:
        """The node's number; what is known of its machine is brought up to date."""
        text = json.dumps(machine)
        with self._engine.begin() as db:
            same = (NODE.c.agent == key.agent) & (NODE.c.boot == key.boot)
            found = db.execute(sa.select(NODE.c.id).where(same)).scalar()
            if found is not None:
                db.execute(NODE.update().where(same).values(machine=text))
                return int(found)
            return _new_id(db.execute(NODE.insert().values(**key._asdict(), machine=text)))

    def machines(self) -> dict[int, Machine]:
        """What each node last said of itself."""
        with self._engine.connect() as db:
            return {r.id: _machine(r.machine) for r in db.execute(sa.select(NODE.c.id, NODE.c.machine))}

    def sayings(self) -> dict[str, list[Saying]]:
        """What each agent said of its machine, in order."""
        found: dict[str, list[Saying]] = {}
        with self._engine.connect() as db:
            for r in db.execute(sa.select(MACHINE).order_by(MACHINE.c.id)):
                found.setdefault(r.agent, []).append(Saying(r.version, r.since_ns, _machine(r.machine)))
        return found

    def add_saying(self, agent: str, saying: Saying, replaces: bool = False) -> None:
        """Keep what an agent said after all it said before; replaces: instead of what it said last."""
        with self._engine.begin() as db:
            if replaces:
                last = sa.select(sa.func.max(MACHINE.c.id)).where(MACHINE.c.agent == agent)
                db.execute(MACHINE.delete().where(MACHINE.c.id == db.execute(last).scalar()))
            values = {**saying._asdict(), "agent": agent, "machine": json.dumps(saying.machine)}
            db.execute(MACHINE.insert().values(values))

    def tags(self) -> list[tuple[str, str, str, int]]:
        """All that was said of jobs: (job, name, value, when)."""
        with self._engine.connect() as db:
            return [(r.job, r.name, r.value, r.said_ns) for r in db.execute(sa.select(TAG))]

    def put_tags(self, said: Iterable[tuple[str, str, str, int]]) -> None:
        """Keep what was said of jobs, as `tags` gives it; the same again with a new time."""
        with self._engine.begin() as db:
            for job, name, value, said_ns in said:
                c = TAG.c
                db.execute(TAG.delete().where((c.job == job) & (c.name == name) & (c.value == value)))
                db.execute(TAG.insert().values(job=job, name=name, value=value, said_ns=said_ns))

    def add_rank(self, key: RankKey) -> int:
        return self._add(RANK, key._asdict())

    def add_kernel(self, kind: KernelKind) -> int:
        return self._add(KERNEL, kind._asdict())

    def _add(self, table: sa.Table, values: dict[str, Any]) -> int:
        with self._engine.begin() as db:
            return _new_id(db.execute(table.insert().values(values)))

    def add_metrics(self, metrics: Iterable[Metric]) -> None:
        with self._engine.begin() as db:
            for metric in metrics:
                db.execute(METRIC.insert().values(metric._asdict()))

    def put_clocks(
        self,
        knots: Iterable[tuple[int, Knot]],
        dropped: Iterable[tuple[int, int]] = (),
        arrivals: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Keep clock exchanges of nodes, forget those of (node, node time), set nodes' offsets by arrival."""
        with self._engine.begin() as db:
            for node, knot in knots:
                db.execute(KNOT.delete().where(_knot_is(node, knot.node_ns)))
                db.execute(KNOT.insert().values(node=node, **knot._asdict()))
            for node, node_ns in dropped:
                db.execute(KNOT.delete().where(_knot_is(node, node_ns)))
            for node, offset_ns in arrivals.items():
                db.execute(ARRIVAL.delete().where(ARRIVAL.c.node == node))
                db.execute(ARRIVAL.insert().values(node=node, offset_ns=offset_ns))

    def arrivals(self) -> dict[int, int]:
        """Least time between the end of a node's batch, in its own time, and its arrival in the server's."""
        with self._engine.connect() as db:
            return {r.node: r.offset_ns for r in db.execute(sa.select(ARRIVAL))}

    def settled(self) -> dict[str, dict[int, float]]:
        """By job and node, how far wrong times in stored step windows can be."""
        found: dict[str, dict[int, float]] = {}
        with self._engine.connect() as db:
            for r in db.execute(sa.select(SETTLED)):
                found.setdefault(r.job, {})[r.node] = r.error_ns
        return found

    def put_settled(self, job: str, errors: Mapping[int, float]) -> None:
        """Replace what `settled` says of a job."""
        with self._engine.begin() as db:
            db.execute(SETTLED.delete().where(SETTLED.c.job == job))
            for node, error_ns in errors.items():
                db.execute(SETTLED.insert().values(job=job, node=node, error_ns=error_ns))

    def state(self, name: str) -> str | None:
        """A value kept under a name; None when there is none."""
        with self._engine.connect() as db:
            return db.execute(sa.select(STATE.c.value).where(STATE.c.name == name)).scalar()

    def put_state(self, name: str, value: str) -> None:
        with self._engine.begin() as db:
            _put_state(db, name, value)

    def knots(self) -> dict[int, list[Knot]]:
        """All knots by node, in order of time."""
        found: dict[int, list[Knot]] = {}
        with self._engine.connect() as db:
            for r in db.execute(sa.select(KNOT).order_by(KNOT.c.node, KNOT.c.node_ns)):
                found.setdefault(r.node, []).append(Knot(r.node_ns, r.offset_ns, int(r.rtt_ns)))
        return found

    def lives(self) -> dict[Incarnation, Life]:
        with self._engine.connect() as db:
            return {
                Incarnation(r.rank, r.node, r.pid, r.start_ns, r.name, r.world, r.framework): Life(
                    r.first_ns, r.last_ns, bool(r.exited)
                )
                for r in db.execute(sa.select(INCARNATION))
            }

    def segments(self, job: str) -> list[Segment]:
        """All segments of a job, oldest first."""
        query = sa.select(SEGMENT).where(SEGMENT.c.job == job).order_by(SEGMENT.c.begin_ns, SEGMENT.c.path)
        with self._engine.connect() as db:
            return [
                Segment(r.job, r.dataset, r.path, r.rows, r.bytes, r.begin_ns, r.end_ns)
                for r in db.execute(query)
            ]

    def paths(self) -> set[str]:
        with self._engine.connect() as db:
            return set(db.execute(sa.select(SEGMENT.c.path)).scalars())

    def progress(self, job: str) -> Progress:
        query = sa.select(PROGRESS).where(PROGRESS.c.job == job)
        with self._engine.connect() as db:
            row = db.execute(query).first()
        if row is None:
            return Progress()
        done = {(rank, node): end_ns for rank, node, end_ns in json.loads(row.done)}
        return Progress(row.through_ns, row.resume_ns, done, tuple(json.loads(row.serving)))

    def sealed_through(self) -> int:
        """Inbox rows up to this id live on in segments."""
        return int(self.state("sealed_through") or 0)

    def seal(self, sealing: Sealing) -> None:
        """Make a sealing true, whole or not at all."""
        with self._engine.begin() as db:
            for path in sealing.replaced:
                db.execute(SEGMENT.delete().where(SEGMENT.c.path == path))
            if sealing.segments:
                db.execute(SEGMENT.insert(), [s._asdict() for s in sealing.segments])
            for job, progress in sealing.progress.items():
                db.execute(PROGRESS.delete().where(PROGRESS.c.job == job))
                done = json.dumps([[*who, end_ns] for who, end_ns in progress.done.items()])
                values = {**progress._asdict(), "done": done, "serving": json.dumps(progress.serving)}
                db.execute(PROGRESS.insert().values(job=job, **values))
            _put_lives(db, sealing.lives)
            _put_state(db, "sealed_through", str(sealing.through_id))


def _knot_is(node: int, node_ns: int) -> sa.ColumnElement[bool]:
    return (KNOT.c.node == node) & (KNOT.c.node_ns == node_ns)


def _put_state(db: sa.Connection, name: str, value: str) -> None:
    db.execute(STATE.delete().where(STATE.c.name == name))
    db.execute(STATE.insert().values(name=name, value=value))


def _put_lives(db: sa.Connection, lives: Mapping[Incarnation, Life]) -> None:
    if not lives:
        return
    key = [column == sa.bindparam(f"_{column.name}") for column in INCARNATION.primary_key]
    db.execute(
        INCARNATION.delete().where(*key),
        [{"_rank": who.rank, "_node": who.node, "_start_ns": who.start_ns} for who in lives],
    )
    values = [{**who._asdict(), **life._asdict(), "exited": int(life.exited)} for who, life in lives.items()]
    db.execute(INCARNATION.insert(), values)


def _new_id(done: sa.CursorResult[Any]) -> int:
    key = done.inserted_primary_key
    assert key is not None
    return int(key[0])


def _durable(connection: Any, _record: Any) -> None:
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    connection.execute("pragma busy_timeout=10000")


def _machine(text: str) -> Machine:
    values = json.loads(text)
    ceilings = tuple(Ceiling(*c) for c in values[7])
    sources = tuple(SourceStatus(*s) for s in values[8])
    host, model, sockets, cores, cpus, memory, kernel, _, _, interval_ns = values
    return Machine(host, model, sockets, cores, cpus, memory, kernel, ceilings, sources, interval_ns)


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"
