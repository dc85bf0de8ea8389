"""Figures of the jobs that run, for /metrics: computed now and then, and only while somebody scrapes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.jobs import Job
from roofline.answers.report import Report
from roofline.answers.values import Value
from roofline.answers.verdict import RankAccount

from ..report.evidence.ranks import NEEDED
from ..report.job.build import build
from ..report.ranks.members import roles_aside
from ..report.ranks.summaries import summarize_job
from ..store.store import Store

log = logging.getLogger(__name__)

EVERY_S = 15.0
REST = 20  # times as long as the last figures took: at most a twentieth of a core
WANTED_S = 300.0  # after the last scrape nobody wants figures any more
MOST_JOBS = 64  # of the newest that run
COMPUTE = "compute"


class RoleFigures(NamedTuple):
    """Figures of all ranks of a role; None: not known. shares: of the mean step, by part of the account."""

    role: str
    ranks: int
    flops_per_second: float | None
    roof_share: float | None  # of what the roof lets them attain
    shares: Mapping[str, float]


class JobFigures(NamedTuple):
    """Figures of one job that runs; None: not known."""

    job: str
    nodes: int
    tags: Mapping[str, str]
    seconds: float  # since its begin
    step_seconds: float | None  # median of the steady steps
    examples_per_second: float | None
    peak_share: float | None  # FLOP/s of all training ranks over the largest peaks of their devices
    bottleneck: str  # its kind; "": there is none
    bottleneck_share: float | None  # of the step
    roles: Sequence[RoleFigures]


class Figures(NamedTuple):
    """omitted: jobs that run of which nothing was computed."""

    jobs: Sequence[JobFigures] = ()
    omitted: int = 0


class FiguresOfJobs:
    """Figures of the jobs of one running server."""

    def __init__(self, look: Callable[[], Figures], clock: Callable[[], float] = time.monotonic) -> None:
        self._look, self._clock = look, clock
        self._found: Figures | None = None
        self._asked = -WANTED_S

    def asked(self) -> Figures | None:
        """What was found last; None: nothing yet, as the first to ask makes it begin."""
        self._asked = self._clock()
        return self._found

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(await self.turn())

    async def turn(self) -> float:
        """Look, where somebody wants it; for how many seconds to rest."""
        if self._clock() - self._asked >= WANTED_S:
            self._found = None
            return 1.0
        begin = self._clock()
        try:
            self._found = await asyncio.to_thread(self._look)
        except Exception:
            # Metrics of jobs are missing then, and no others.
            log.exception("no figures of jobs for /metrics")
            self._found = None
        return max(EVERY_S, REST * (self._clock() - begin))


def look(store: Store) -> Figures:
    """The figures of all jobs that run now."""
    now = store.now_ns()
    listed = (summarize_job(store.overview(name), now) for name in store.jobs())
    running = sorted((job for job in listed if job.running), key=lambda job: -job.begin_ns)
    found = []
    for job in running[:MOST_JOBS]:
        view = store.view(job.job, NEEDED)
        if view is not None:
            found.append(figures(job, build(view, now_ns=now), now))
    return Figures(found, len(running) - len(found))


def figures(job: Job, report: Report, now_ns: int) -> JobFigures:
    """Figures of a job from its report."""
    verdict = report.verdict
    accounts = verdict.accounts if verdict else []
    bottleneck = verdict.bottleneck if verdict else None
    return JobFigures(
        job=job.job,
        nodes=len(job.hosts),
        tags=job.tags,
        seconds=max(0.0, (now_ns - job.begin_ns) / 1e9),
        step_seconds=verdict.step_median.value if verdict else None,
        examples_per_second=verdict.examples_per_second.value if verdict else None,
        peak_share=_peak_share(report),
        bottleneck=bottleneck.kind if bottleneck else "",
        bottleneck_share=bottleneck.share.value if bottleneck else None,
        roles=[
            RoleFigures(
                role.role,
                role.ranks,
                _number(role.summary.values, "flops_per_second"),
                _number(role.summary.values, "roof_share"),
                _shares(account for account in accounts if account.role == role.role),
            )
            for role in report.roles
        ],
    )


def _number(values: Mapping[str, Value], name: str) -> float | None:
    found = values.get(name)
    return None if found is None else found.value


def _shares(accounts: Iterable[RankAccount]) -> dict[str, float]:
    """The mean over those ranks that have an account; a part that one of them lacks took none of its step."""
    known = [account for account in accounts if account.parts]
    total: dict[str, float] = {}
    for account in known:
        for part in account.parts:
            total[part.part] = total.get(part.part, 0.0) + (part.share.value or 0.0)
    return {name: share / len(known) for name, share in total.items()}


def _peak_share(report: Report) -> float | None:
    """None where the FLOP/s of a rank with steps, or the peak of a device, are not known.

    Of a device the largest compute ceiling that was measured: a job in narrower numbers than it computes in
    does not look better than it is.
    """
    aside = roles_aside({rank.role for rank in report.ranks})
    reached = [
        _number(rank.summary.values, "flops_per_second") for rank in report.ranks if rank.role not in aside
    ]
    on_gpu = any(roof.device for roof in report.roofs)
    peaks = [
        max((one.value for one in roof.ceilings if one.kind == COMPUTE), default=None)
        for roof in report.roofs
        if bool(roof.device) == on_gpu
    ]
    known, sums = [one for one in reached if one], [one for one in peaks if one]
    if not known or len(known) < len(reached) or not sums or len(sums) < len(peaks):
        return None
    return sum(known) / sum(sums)
