"""The catalog: which segments there are, what the ids in them stand for, how far step deltas have come.

SQLite by default; anything SQLAlchemy speaks by URL. One transaction makes a sealing visible: its segments,
the progress of the step deltas, and the inbox rows they replace, all or nothing.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import sqlalchemy as sa

from ... import __version__
from ...records import Ending, Incarnation, Lifetime
from ..segments.files import Segment
from .names import Names
from .removals import Removal, Removals, note_removal
from .sums import add_function, begin_sums
from .tables import EXIT, FOOTER, INCARNATION, META, OPEN_MARKS, PROGRESS, SEGMENT, STATE
from .times import Times
from .versions import FORMAT, RELEASE, check_format, write_copy

CACHE_KB = 1024  # of each connection, of which there are several; the kernel caches the file besides
_STATE_OF = sa.select(STATE.c.value).where(STATE.c.name == sa.bindparam("name"))


class OpenMark(NamedTuple):
    """A mark at which a step may have begun that has not ended yet: columns of `marks`, in node time."""

    rank: int
    sender: int
    node: int
    start_ns: int
    kind: int
    step: int
    examples: int
    time_ns: int
    asynchronous: int
    like: int


class Progress(NamedTuple):
    """Step deltas of a job are stored for windows that end up to through_ns; later ones need the raw data
    from resume_ns on. Server times."""

    through_ns: int = 0
    resume_ns: int = 0
    # (rank, node that reported) -> node time at which its newest stored step ended
    done: Mapping[tuple[int, int], int] = MappingProxyType({})
    serving: tuple[int, ...] = ()  # ranks that serve others and were known then
    opened: tuple[OpenMark, ...] = ()  # before resume_ns: what later ones need of the raw data before that

    @property
    def stepped(self) -> frozenset[int]:
        """Ranks with stored steps of their own."""
        return frozenset(rank for rank, _ in self.done)


class Sealing(NamedTuple):
    """Everything one sealing changes."""

    segments: list[Segment]
    replaced: list[str]  # paths of segments that a rebuild made obsolete, or that were merged
    progress: dict[str, Progress]
    process_lifetimes: dict[Incarnation, Lifetime]
    through_id: int


class Catalog(Names, Times, Removals):
    """All reads and writes of the catalog. Safe to use from several threads."""

    def __init__(self, url: str) -> None:
        """Open or create. Raises sqlalchemy.exc.SQLAlchemyError, Unavailable for a later format."""
        self._engine = sa.create_engine(url)
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", _set_up)
        check_format(self._engine)
        with self._engine.begin() as db:
            is_sqlite = self._engine.dialect.name == "sqlite"
            if is_sqlite:
                db.exec_driver_sql("begin immediate")  # else each table is a transaction
            META.create_all(db)
            for name, value in (("format", str(FORMAT)), (RELEASE, __version__)):
                if db.execute(_STATE_OF, {"name": name}).scalar() != value:
                    _put_state(db, name, value)
            if is_sqlite:
                begin_sums(cast(sqlite3.Connection, db.connection.driver_connection))

    def close(self) -> None:
        self._engine.dispose()

    def state(self, name: str) -> str | None:
        """A value kept under a name; None when there is none."""
        with self._engine.connect() as db:
            return db.execute(_STATE_OF, {"name": name}).scalar()

    def put_state(self, name: str, value: str) -> None:
        self.put_states({name: value})

    def put_states(self, values: Mapping[str, str]) -> None:
        """Keep values under their names, in one commit."""
        with self._engine.begin() as db:
            for name, value in values.items():
                _put_state(db, name, value)

    def copy(self, target: Path) -> bool:
        """See `write_copy`."""
        return write_copy(self._engine, target)

    def process_lifetimes(self) -> dict[Incarnation, Lifetime]:
        with self._engine.connect() as db:
            endings = {
                (r.rank, r.node, r.start_ns): Ending(r.status, r.step, r.time_ns)
                for r in db.execute(sa.select(EXIT))
            }
            return {
                Incarnation(r.rank, r.node, r.pid, r.start_ns, r.name, r.world, r.framework): Lifetime(
                    r.first_ns,
                    r.last_ns,
                    bool(r.exited),
                    endings.get((r.rank, r.node, r.start_ns), Ending()),
                )
                for r in db.execute(sa.select(INCARNATION))
            }

    def segments(self, job: str) -> list[Segment]:
        """All segments of a job, those of a dataset in the order in which their rows were sealed.

        Not in order of time: that of merged segments is not the same as of each of them.
        """
        with self._engine.connect() as db:
            query = sa.select(SEGMENT, FOOTER.c.crc32).outerjoin(FOOTER, FOOTER.c.path == SEGMENT.c.path)
            found = [
                Segment(r.job, r.dataset, r.path, r.rows, r.bytes, r.begin_ns, r.end_ns, r.crc32)
                for r in db.execute(query.where(SEGMENT.c.job == job))
            ]
        # Not sorted by the database: each has an order of its own for texts.
        return sorted(found, key=attrgetter("path"))

    def jobs_with_segments(self) -> set[str]:
        """Also the empty one, of what concerns nodes."""
        with self._engine.connect() as db:
            return set(db.execute(sa.select(SEGMENT.c.job).distinct()).scalars())

    def paths(self) -> set[str]:
        with self._engine.connect() as db:
            return set(db.execute(sa.select(SEGMENT.c.path)).scalars())

    def progress(self, job: str) -> Progress:
        same = OPEN_MARKS.c.job == PROGRESS.c.job, OPEN_MARKS.c.through_ns == PROGRESS.c.through_ns
        query = sa.select(PROGRESS, OPEN_MARKS.c.marks).outerjoin(OPEN_MARKS, sa.and_(*same))
        with self._engine.connect() as db:
            row = db.execute(query.where(PROGRESS.c.job == job)).first()
        if row is None:
            return Progress()
        opened = tuple(OpenMark(*mark) for mark in json.loads(row.marks or "[]"))
        done = {(rank, node): end_ns for rank, node, end_ns in json.loads(row.done)}
        return Progress(row.through_ns, row.resume_ns, done, tuple(json.loads(row.serving)), opened)

    def sealed_through(self) -> int:
        """Inbox rows up to this id live on in segments."""
        return int(self.state("sealed_through") or 0)

    def seal(self, sealing: Sealing) -> None:
        """Make a sealing true, whole or not at all."""
        with self.prepared(sealing) as commit:
            commit()

    @contextlib.contextmanager
    def prepared(self, sealing: Sealing) -> Iterator[Callable[[], None]]:
        """Write a sealing, which becomes true, whole or not at all, when the function is called."""
        with self._engine.connect() as db:
            _replace_segments(db, sealing.replaced, sealing.segments)
            for job, progress in sealing.progress.items():
                _put_progress(db, job, progress)
            _put_lifetimes(db, sealing.process_lifetimes)
            _put_state(db, "sealed_through", str(sealing.through_id))
            yield db.commit

    def remove(self, removal: Removal, progress: Progress | None = None) -> None:
        """Make a removal true, whole or not at all; `progress` is the job's from now on, if it changes."""
        with self._engine.begin() as db:
            _replace_segments(db, removal.gone, removal.made)
            note_removal(db, removal)
            if progress is not None:
                _put_progress(db, removal.job, progress)


def _replace_segments(db: sa.Connection, gone: Iterable[str], made: Sequence[Segment]) -> None:
    for path in gone:
        db.execute(SEGMENT.delete().where(SEGMENT.c.path == path))
        db.execute(FOOTER.delete().where(FOOTER.c.path == path))
    if made:
        rows = [s._asdict() for s in made]
        footers = [{"path": row["path"], "crc32": row.pop("footer")} for row in rows]
        db.execute(SEGMENT.insert(), rows)
        if known := [footer for footer in footers if footer["crc32"] is not None]:
            db.execute(FOOTER.insert(), known)


def _put_progress(db: sa.Connection, job: str, progress: Progress) -> None:
    db.execute(PROGRESS.delete().where(PROGRESS.c.job == job))
    done = json.dumps([[*who, end_ns] for who, end_ns in progress.done.items()])
    values = {**progress._asdict(), "done": done, "serving": json.dumps(progress.serving)}
    opened = values.pop("opened")
    db.execute(PROGRESS.insert().values(job=job, **values))
    db.execute(OPEN_MARKS.delete().where(OPEN_MARKS.c.job == job))
    if opened:
        marks = json.dumps(opened)
        db.execute(OPEN_MARKS.insert().values(job=job, through_ns=progress.through_ns, marks=marks))


def _put_state(db: sa.Connection, name: str, value: str) -> None:
    db.execute(STATE.delete().where(STATE.c.name == name))
    db.execute(STATE.insert().values(name=name, value=value))


def _put_lifetimes(db: sa.Connection, lifetimes: Mapping[Incarnation, Lifetime]) -> None:
    by_key = {}
    # One process can be described in several ways, as when its framework becomes known: the last one stays.
    for who, lifetime in sorted(lifetimes.items(), key=lambda item: item[1].last_ns):
        values = {**who._asdict(), **lifetime._asdict(), "exited": int(lifetime.exited)}
        by_key[who.rank, who.node, who.start_ns] = values
    _replace(db, INCARNATION, by_key)
    endings = {key: {**values, **values["ending"]._asdict()} for key, values in by_key.items()}
    _replace(db, EXIT, {key: values for key, values in endings.items() if values["ending"] != Ending()})


def _replace(db: sa.Connection, table: sa.Table, rows: Mapping[tuple[int, int, int], dict[str, Any]]) -> None:
    """Put rows by their keys in the place of those of the same keys."""
    if rows:
        same = [column == sa.bindparam(f"_{column.name}") for column in table.primary_key]
        keys = [
            {f"_{column.name}": values[column.name] for column in table.primary_key}
            for values in rows.values()
        ]
        db.execute(table.delete().where(*same), keys)
        names = table.columns.keys()
        db.execute(table.insert(), [{name: values[name] for name in names} for values in rows.values()])


def _set_up(connection: Any, _record: Any) -> None:
    add_function(connection)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    connection.execute("pragma busy_timeout=10000")
    connection.execute(f"pragma cache_size=-{CACHE_KB}")


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"
