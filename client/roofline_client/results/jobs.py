"""The list of jobs, the report of one, and who waits in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.answers.comparison import Comparison
from roofline.answers.jobs import Job
from roofline.answers.report import Report
from roofline.answers.waits import Stragglers
from roofline.answers.what_if import WhatIf

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
    """What holds a job back, and what each role and rank reached.

    Tables: ranks and roles (a column a metric), values (a row per metric, with scope and coverage),
    ceilings, roofs (a row per vertex), facts, gaps, sources, accounts and findings of the verdict.
    """

    def _form(self) -> Any:
        from ..tables import screen

        return screen

    def full(self) -> str:
        """The text with all tables below it, as `report --full` prints it."""
        from ..tables import screen
        from ..tables.text import rendered

        return rendered(screen.in_full(self.record))

    def html(self) -> str:
        """A page of its own, as `report --format html` prints it."""
        from ..tables import screen
        from .page import document

        return document(f"Job {self.record.job}", screen.in_full(self.record))


class ComparisonResult(Result[Comparison]):
    """Two jobs side by side. Tables: changes (a row a number), settings."""

    def _form(self) -> Any:
        from ..tables import job_comparisons

        return job_comparisons


class StragglersResult(Result[Stragglers]):
    """Who waits for whom. Tables: ranks (a column a metric), causes, imbalance (over time), servers."""

    def _form(self) -> Any:
        from ..tables import stragglers

        return stragglers


class WhatIfResult(Result[WhatIf]):
    """What a job would do with something changed. Table: predictions (step and rate)."""

    def _form(self) -> Any:
        from ..tables import what_if

        return what_if
