"""The list of jobs as the page shows it: running first, and of the newest what holds them up."""

from __future__ import annotations

import json
from typing import NamedTuple

from roofline.answers.jobs import Job
from roofline.answers.report import Report

from ..api import Client
from ..errors import ClientError
from ..tables import units
from .live import Shown

WITH_VERDICT = 20  # jobs, the newest
MOST = 500  # jobs that are listed


class JobLine(NamedTuple):
    """A job in the list; all texts."""

    job: str
    state: str
    running: bool
    begun: str
    lasted: str
    roles: str
    hosts: str
    tags: str
    speed: str
    verdict: str
    kind: str  # of the verdict: bottleneck, healthy, unclear, unknown; "": none was asked for


class JobList:
    """For one visitor's access."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, int], Report] = {}  # they change no more

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        jobs = sorted(client.jobs(), key=lambda job: (not job.running, -job.end_ns))[:MOST]
        lines = [self._line(client, job, at < WITH_VERDICT) for at, job in enumerate(jobs)]
        return json.dumps({"jobs": [line._asdict() for line in lines]}), True

    def _line(self, client: Client, job: Job, with_verdict: bool) -> JobLine:
        report = self._report(client, job) if with_verdict and not job.removed else None
        verdict = report.verdict if report else None
        rate = verdict.examples_per_second if verdict else None
        return JobLine(
            job=job.job,
            state=job.state or ("running" if job.running else "ended"),
            running=job.running,
            begun=units.when(job.begin_ns, "%Y-%m-%d %H:%M:%S"),
            lasted=units.number((job.end_ns - job.begin_ns) / 1e9, "s"),
            roles=", ".join(f"{count} {role}" for role, count in job.roles.items()),
            hosts=", ".join(job.hosts),
            tags=", ".join(f"{name}={value}" for name, value in job.tags.items()),
            speed=f"{rate.value:,.0f} {rate.unit}" if rate is not None and rate.value is not None else "",
            verdict=verdict.headline if verdict else "",
            kind=verdict.kind if verdict else "",
        )

    def _report(self, client: Client, job: Job) -> Report | None:
        key = job.job, job.end_ns
        if key in self._ended:
            return self._ended[key]
        try:
            report = client.report(job.job, first_screen=True)
        except ClientError:
            return None
        if not job.running:
            while len(self._ended) >= WITH_VERDICT:
                del self._ended[next(iter(self._ended))]
            self._ended[key] = report
        return report
