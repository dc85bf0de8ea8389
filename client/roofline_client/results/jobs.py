"""The list of jobs, the report of one, and who waits in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.answers.jobs import Job
from roofline.answers.report import Report
from roofline.answers.waits import Stragglers

from ..tables.flat import Table
from .result import Framed, Result, Shown


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

    def _form(self) -> Any:
        from ..tables import reports

        return reports


class StragglersResult(Result[Stragglers]):
    """Who waits for whom. Tables: ranks (a column a metric), causes, imbalance (over time), servers."""

    def _form(self) -> Any:
        from ..tables import stragglers

        return stragglers
