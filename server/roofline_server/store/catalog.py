"""The catalog: which segments there are, what the small numbers in them mean, how far work has come.

SQLite by default; anything SQLAlchemy speaks by URL. One transaction makes a sealing visible: its segments,
the progress of the step deltas, and the inbox rows they replace, all or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Float, Integer, String, UniqueConstraint

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

_meta = sa.MetaData()
_Number = BigInteger().with_variant(Integer, "sqlite")

_state = sa.Table("state", _meta, Column("name", String, primary_key=True), Column("value", String))
_node = sa.Table(
    "node",
    _meta,
    Column("id", Integer, primary_key=True),
    Column("agent", String, nullable=False),
    Column("boot", String, nullable=False),
    Column("machine", String, nullable=False),
    UniqueConstraint("agent", "boot"),
)
_rank = sa.Table(
    "rank",
    _meta,
    Column("id", Integer, primary_key=True),
    Column("job", String, nullable=False, index=True),
    Column("role", String, nullable=False),
    Column("index", Integer, nullable=False),
    UniqueConstraint("job", "role", "index"),
)
_kernel = sa.Table(
    "kernel",
    _meta,
    Column("id", Integer, primary_key=True),
    *(Column(name, String, nullable=False) for name in KernelKind._fields),
    UniqueConstraint(*KernelKind._fields),
)
_metric = sa.Table(
    "metric",
    _meta,
    Column("counter_set", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("kind", Integer),
    Column("unit", String),
    Column("scope", Integer),
    Column("provenance", Integer),
    Column("is_double", Integer),
    Column("coverage_of", String),
)
_incarnation = sa.Table(
    "incarnation",
    _meta,
    Column("rank", Integer, primary_key=True),
    Column("node", Integer, primary_key=True),
    Column("start_ns", _Number, primary_key=True),
    Column("pid", Integer),
    Column("name", String),
    Column("world", Integer),
    Column("framework", String),
    Column("first_ns", _Number),
    Column("last_ns", _Number),
    Column("exited", Integer),
)
_segment = sa.Table(
    "segment",
    _meta,
    Column("path", String, primary_key=True),
    Column("job", String, nullable=False, index=True),
    Column("dataset", String, nullable=False),
    Column("rows", _Number),
    Column("bytes", _Number),
    Column("begin_ns", _Number),
    Column("end_ns", _Number),
)
_knot = sa.Table(
    "knot",
    _meta,
    Column("node", Integer, primary_key=True),
    Column("node_ns", _Number, primary_key=True),
    Column("offset_ns", _Number),
    Column("rtt_ns", Float),
)
_arrival = sa.Table("arrival", _meta, Column("node", Integer, primary_key=True), Column("offset_ns", _Number))
_settled = sa.Table(
    "settled",
    _meta,
    Column("job", String, primary_key=True),
    Column("node", Integer, primary_key=True),
    Column("error_ns", Float),
)
_progress = sa.Table(
    "progress",
    _meta,
    Column("job", String, primary_key=True),
    Column("through_ns", _Number, nullable=False),
    Column("resume_ns", _Number, nullable=False),
    Column("done", String, nullable=False),
    Column("serving", String, nullable=False),
)


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

    segments: Sequence[Segment]
    replaced: Sequence[str]  # paths of step segments that a rebuild made obsolete
    progress: dict[str, Progress]
    lives: dict[Incarnation, Life]
    through_id: int


class Catalog:
    """All reads and writes of the catalog. Safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url)
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", _durable)
        _meta.create_all(self._engine)

    def close(self) -> None:
        self._engine.dispose()

    def numbers(
        self,
    ) -> tuple[dict[NodeKey, int], dict[RankKey, int], dict[KernelKind, int], dict[tuple[str, str], Metric]]:
        """All names that have numbers: nodes, ranks, kernels; and the metrics by (counter set, name)."""
        with self._engine.connect() as db:
            nodes = {NodeKey(r.agent, r.boot): r.id for r in db.execute(sa.select(_node))}
            ranks = {RankKey(*r[1:]): r[0] for r in db.execute(sa.select(_rank))}
            kernels = {KernelKind(*r[1:]): r[0] for r in db.execute(sa.select(_kernel))}
            metrics = {}
            for r in db.execute(sa.select(_metric)):
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
            same = (_node.c.agent == key.agent) & (_node.c.boot == key.boot)
            found = db.execute(sa.select(_node.c.id).where(same)).scalar()
            if found is not None:
                db.execute(_node.update().where(same).values(machine=text))
                return int(found)
            return _new_id(db.execute(_node.insert().values(**key._asdict(), machine=text)))

    def machines(self) -> dict[int, Machine]:
        """What each node last said of itself."""
        with self._engine.connect() as db:
            return {r.id: _machine(r.machine) for r in db.execute(sa.select(_node.c.id, _node.c.machine))}

    def add_rank(self, key: RankKey) -> int:
        return self._add(_rank, key._asdict())

    def add_kernel(self, kind: KernelKind) -> int:
        return self._add(_kernel, kind._asdict())

    def _add(self, table: sa.Table, values: dict[str, Any]) -> int:
        with self._engine.begin() as db:
            return _new_id(db.execute(table.insert().values(values)))

    def add_metrics(self, metrics: Iterable[Metric]) -> None:
        with self._engine.begin() as db:
            for metric in metrics:
                db.execute(_metric.insert().values(metric._asdict()))

    def put_clocks(
        self,
        knots: Iterable[tuple[int, Knot]],
        dropped: Iterable[tuple[int, int]] = (),
        arrivals: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Keep clock exchanges of nodes, forget those of (node, node time), set nodes' offsets by arrival."""
        with self._engine.begin() as db:
            for node, knot in knots:
                db.execute(_knot.delete().where(_knot_is(node, knot.node_ns)))
                db.execute(_knot.insert().values(node=node, **knot._asdict()))
            for node, node_ns in dropped:
                db.execute(_knot.delete().where(_knot_is(node, node_ns)))
            for node, offset_ns in arrivals.items():
                db.execute(_arrival.delete().where(_arrival.c.node == node))
                db.execute(_arrival.insert().values(node=node, offset_ns=offset_ns))

    def arrivals(self) -> dict[int, int]:
        """Least time between the end of a node's batch, in its own time, and its arrival in the server's."""
        with self._engine.connect() as db:
            return {r.node: r.offset_ns for r in db.execute(sa.select(_arrival))}

    def settled(self) -> dict[str, dict[int, float]]:
        """By job and node, how far wrong times in stored step windows can be."""
        found: dict[str, dict[int, float]] = {}
        with self._engine.connect() as db:
            for r in db.execute(sa.select(_settled)):
                found.setdefault(r.job, {})[r.node] = r.error_ns
        return found

    def put_settled(self, job: str, errors: Mapping[int, float]) -> None:
        """Replace what `settled` says of a job."""
        with self._engine.begin() as db:
            db.execute(_settled.delete().where(_settled.c.job == job))
            for node, error_ns in errors.items():
                db.execute(_settled.insert().values(job=job, node=node, error_ns=error_ns))

    def state(self, name: str) -> str | None:
        """A value kept under a name; None when there is none."""
        with self._engine.connect() as db:
            return db.execute(sa.select(_state.c.value).where(_state.c.name == name)).scalar()

    def put_state(self, name: str, value: str) -> None:
        with self._engine.begin() as db:
            _put_state(db, name, value)

    def knots(self) -> dict[int, list[Knot]]:
        """All knots by node, in order of time."""
        found: dict[int, list[Knot]] = {}
        with self._engine.connect() as db:
            for r in db.execute(sa.select(_knot).order_by(_knot.c.node, _knot.c.node_ns)):
                found.setdefault(r.node, []).append(Knot(r.node_ns, r.offset_ns, int(r.rtt_ns)))
        return found

    def lives(self) -> dict[Incarnation, Life]:
        with self._engine.connect() as db:
            return {
                Incarnation(r.rank, r.node, r.pid, r.start_ns, r.name, r.world, r.framework): Life(
                    r.first_ns, r.last_ns, bool(r.exited)
                )
                for r in db.execute(sa.select(_incarnation))
            }

    def segments(self, job: str) -> list[Segment]:
        """All segments of a job, oldest first."""
        query = (
            sa.select(_segment).where(_segment.c.job == job).order_by(_segment.c.begin_ns, _segment.c.path)
        )
        with self._engine.connect() as db:
            return [
                Segment(r.job, r.dataset, r.path, r.rows, r.bytes, r.begin_ns, r.end_ns)
                for r in db.execute(query)
            ]

    def paths(self) -> set[str]:
        with self._engine.connect() as db:
            return set(db.execute(sa.select(_segment.c.path)).scalars())

    def progress(self, job: str) -> Progress:
        query = sa.select(_progress).where(_progress.c.job == job)
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
                db.execute(_segment.delete().where(_segment.c.path == path))
            if sealing.segments:
                db.execute(_segment.insert(), [s._asdict() for s in sealing.segments])
            for job, progress in sealing.progress.items():
                db.execute(_progress.delete().where(_progress.c.job == job))
                done = json.dumps([[*who, end_ns] for who, end_ns in progress.done.items()])
                values = {**progress._asdict(), "done": done, "serving": json.dumps(progress.serving)}
                db.execute(_progress.insert().values(job=job, **values))
            for who, life in sealing.lives.items():
                _put_life(db, who, life)
            _put_state(db, "sealed_through", str(sealing.through_id))


def _knot_is(node: int, node_ns: int) -> sa.ColumnElement[bool]:
    return (_knot.c.node == node) & (_knot.c.node_ns == node_ns)


def _put_state(db: sa.Connection, name: str, value: str) -> None:
    db.execute(_state.delete().where(_state.c.name == name))
    db.execute(_state.insert().values(name=name, value=value))


def _put_life(db: sa.Connection, who: Incarnation, life: Life) -> None:
    c = _incarnation.c
    db.execute(
        _incarnation.delete().where(
            (c.rank == who.rank) & (c.node == who.node) & (c.start_ns == who.start_ns)
        )
    )
    values = {**who._asdict(), **life._asdict(), "exited": int(life.exited)}
    db.execute(_incarnation.insert().values(values))


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
