"""The list of jobs, the report of one, and who waits in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.answers.jobs import Job
from roofline.answers.report import Fact, Gap, RankReport, Report, RoleReport, Source
from roofline.answers.waits import Cause, Imbalance, Stragglers

from ..tables import flat
from ..tables.flat import Table
from ..tables.metrics import Subject, wide
from .result import Framed, Result, Shown

RANK = ("rank", "role", "index", "host", "pid", "name", "windows", "bound", "bound_reason")
ROLE = ("role", "ranks", "hosts", "bound", "bound_reason")
WAITS = ("rank", "role", "host")
SERVER = ("rank", "host")


class Jobs(list[Job], Shown, Framed):
    """Jobs, newest first: a list of `Job`. Table: jobs."""

    def text(self) -> Any:
        from ..tables import jobs

        return jobs.as_text(self)

    def _tables(self) -> Mapping[str, Table]:
        from ..tables import jobs

        return jobs.tables(self)


class ReportResult(Result[Report]):
    """What each role and rank reached. Tables: ranks and roles (a column a metric), values (a row per metric,
    with scope and coverage), ceilings, roofs (a row per vertex), facts, gaps, sources."""

    def text(self) -> Any:
        from ..tables import reports

        return reports.as_text(self.record)

    def _tables(self) -> Mapping[str, Table]:
        from ..tables import reports, rooflines

        found = self.record
        values = Table(reports.CSV_COLUMNS, list(reports.rows(found)), {"coverage": "1"})
        return {
            "ranks": wide([_rank(rank) for rank in found.ranks], RANK),
            "roles": wide([_role(role) for role in found.roles], ROLE),
            "values": values,
            "ceilings": rooflines.ceilings(found.roofs),
            "roofs": rooflines.vertices(found.roofs),
            "facts": flat.table(Fact, found.facts),
            "gaps": flat.table(Gap, found.gaps),
            "sources": flat.table(Source, found.sources),
        }


def _rank(rank: RankReport) -> Subject:
    return Subject({**rank._asdict(), **rank.summary._asdict()}, rank.summary.values)


def _role(role: RoleReport) -> Subject:
    about = {**role._asdict(), **role.summary._asdict(), "hosts": ", ".join(role.hosts)}
    return Subject(about, role.summary.values)


class StragglersResult(Result[Stragglers]):
    """Who waits for whom. Tables: ranks (a column a metric), causes, imbalance (over time), servers."""

    def text(self) -> Any:
        from ..tables import stragglers

        return stragglers.as_text(self.record)

    def _tables(self) -> Mapping[str, Table]:
        found = self.record
        return {
            "ranks": wide([Subject(rank._asdict(), rank.values) for rank in found.ranks], WAITS),
            "causes": flat.table(Cause, found.causes),
            "imbalance": flat.table(Imbalance, found.imbalance),
            "servers": wide([Subject(server._asdict(), server.values) for server in found.servers], SERVER),
        }
