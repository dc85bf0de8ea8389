"""The part of the catalog with what retention removed of jobs, and which files it leaves to be deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from ...records import NODE_JOB, CutLevel, Removed
from ..segments.files import Segment
from .tables import JOB_CLOCK, KEPT_REPORT, RANK, REMOVED, SEGMENT, UNWANTED

MOST_NAMED = 500  # jobs in one question; of more all are read


class Removal(NamedTuple):
    """Everything one removal changes. gone: paths. made: what takes the place of some of them."""

    job: str  # NODE_JOB: events of nodes that concern no job that is left
    removed: Removed
    gone: Sequence[str]
    made: Sequence[Segment] = ()
    report: bytes | None = None  # to be kept; empty: the one that was kept goes; None: nothing changes


class Extent(NamedTuple):
    """One dataset of one job, sealed. Server times."""

    job: str
    dataset: str
    begin_ns: int
    end_ns: int
    bytes: int


class Removals:
    _engine: sa.Engine

    # job: of this one alone; "": of all.

    def extents(self, job: str = "") -> list[Extent]:
        """All datasets of jobs."""
        least, most = sa.func.min(SEGMENT.c.begin_ns), sa.func.max(SEGMENT.c.end_ns)
        key = (SEGMENT.c.job, SEGMENT.c.dataset)
        query = sa.select(*key, least, most, sa.func.sum(SEGMENT.c.bytes)).group_by(*key)
        with self._engine.connect() as db:
            found = db.execute(query.where(_is(SEGMENT.c.job, job)))
            return [Extent(*r[:4], int(r[4] or 0)) for r in found]

    def stored_bytes(self) -> int:
        """Bytes of all segments and all reports that are kept."""
        sizes = (SEGMENT.c.bytes, sa.func.length(KEPT_REPORT.c.data))
        with self._engine.connect() as db:
            return sum(int(db.execute(sa.select(sa.func.sum(size))).scalar() or 0) for size in sizes)

    def newest_ns(self) -> int | None:
        """The end of the newest segment; None: there are none."""
        with self._engine.connect() as db:
            return db.execute(sa.select(sa.func.max(SEGMENT.c.end_ns))).scalar()

    def job_of_ranks(self, jobs: Collection[str]) -> dict[int, str]:
        """The job of each rank of these jobs, by its id."""
        query = sa.select(RANK.c.id, RANK.c.job)
        if len(jobs) <= MOST_NAMED:
            query = query.where(RANK.c.job.in_(jobs))
        with self._engine.connect() as db:
            return {rank: job for rank, job in db.execute(query) if job in jobs}

    def removed(self, job: str) -> Removed | None:
        """What was removed of a job; None: nothing was."""
        with self._engine.connect() as db:
            row = db.execute(sa.select(REMOVED).where(REMOVED.c.job == job)).first()
        return Removed(CutLevel(row.level), *row[2:]) if row else None

    def all_removed(self, job: str = "") -> dict[str, Removed]:
        """What was removed of each job of which something was."""
        query = sa.select(REMOVED).where(_is(REMOVED.c.job, job))
        with self._engine.connect() as db:
            found = {r.job: Removed(CutLevel(r.level), *r[2:]) for r in db.execute(query)}
        found.pop(NODE_JOB, None)
        return found

    def kept_report(self, job: str) -> bytes | None:
        """The report of a job as it was before its step deltas were removed; None: none is kept."""
        query = sa.select(KEPT_REPORT.c.data).where(KEPT_REPORT.c.job == job)
        with self._engine.connect() as db:
            data = db.execute(query).scalar()
        return None if data is None else bytes(data)

    def kept_report_bytes(self, job: str = "") -> dict[str, int]:
        """Sizes of the reports that are kept."""
        query = sa.select(KEPT_REPORT.c.job, sa.func.length(KEPT_REPORT.c.data))
        with self._engine.connect() as db:
            return {r[0]: int(r[1]) for r in db.execute(query.where(_is(KEPT_REPORT.c.job, job)))}

    def unwanted(self) -> list[str]:
        """Files that are to be deleted unless the catalog knows them."""
        with self._engine.connect() as db:
            return list(db.execute(sa.select(UNWANTED.c.path)).scalars())

    def add_unwanted(self, paths: Iterable[str]) -> None:
        with self._engine.begin() as db:
            _put_unwanted(db, paths)

    def forget_unwanted(self, paths: Iterable[str]) -> None:
        """These are deleted."""
        with self._engine.begin() as db:
            for path in paths:
                db.execute(UNWANTED.delete().where(UNWANTED.c.path == path))


def _is(column: sa.Column[Any], job: str) -> sa.ColumnElement[bool]:
    return column == job if job else sa.true()


def note_removal(db: sa.Connection, removal: Removal) -> None:
    """The rows besides those of segments and progress."""
    for segment in removal.made:
        db.execute(UNWANTED.delete().where(UNWANTED.c.path == segment.path))
    _put_unwanted(db, removal.gone)
    if removal.removed.level >= CutLevel.STEPS:  # nothing is left that has a time of a node
        db.execute(JOB_CLOCK.delete().where(JOB_CLOCK.c.job == removal.job))
    before = db.execute(sa.select(REMOVED).where(REMOVED.c.job == removal.job)).first()
    now = removal.removed
    if before:
        now = now._replace(
            level=CutLevel(max(now.level, before.level)),
            end_ns=max(now.end_ns, before.end_ns),
            rows=now.rows + before.rows,
            bytes=now.bytes + before.bytes,
        )
        db.execute(REMOVED.delete().where(REMOVED.c.job == removal.job))
    db.execute(REMOVED.insert().values(job=removal.job, **{**now._asdict(), "level": int(now.level)}))
    if removal.report is not None:
        db.execute(KEPT_REPORT.delete().where(KEPT_REPORT.c.job == removal.job))
        if removal.report:
            db.execute(KEPT_REPORT.insert().values(job=removal.job, data=removal.report))


def _put_unwanted(db: sa.Connection, paths: Iterable[str]) -> None:
    for path in paths:
        db.execute(UNWANTED.delete().where(UNWANTED.c.path == path))
        db.execute(UNWANTED.insert().values(path=path))
