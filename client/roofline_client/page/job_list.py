"""The list of jobs as the page shows it: running first, and of the newest what holds them up."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from roofline.answers.jobs import Job
from roofline.answers.verdict import Verdict

from ..api import Client
from ..errors import ClientError
from ..tables import units
from .live import SHARE, Shown

WITH_VERDICT = 20  # jobs, the newest
WORDS = 5  # of what holds a job up
SPARKS = 30  # stretches of steps of a sparkline
MOST = 500  # jobs that are listed
RUNNING_S = 5.0  # the bottleneck of a running job is asked for every 5 s at most, of one job at a look
PART = 0.25  # share of what the server grants to all questions of pages that this may take
LOOK_S = 2.0  # a look asks for one job after the other, until it has used up the grant of 2 s


class Seen(NamedTuple):
    """What the line of one job shows in addition to what the list of jobs knows."""

    verdict: Verdict | None
    sparks: list[float | None]


class Asked(NamedTuple):
    """What was found of a running job, and from when on (s) it is to be asked for again."""

    seen: Seen | None
    again_s: float


class JobLine(NamedTuple):
    """A job in the list; texts but for running, tags and sparks."""

    job: str
    state: str
    running: bool
    begun: str
    lasted: str
    roles: str
    hosts: str
    user: str
    tags: dict[str, str]
    speed: str
    sparks: list[float | None]  # steps/s by stretches of steps; empty: not asked for
    verdict: str  # in at most five words
    headline: str  # the same in full
    kind: str  # of the verdict: bottleneck, healthy, unclear, unknown; "": none was asked for


class JobList:
    """For one visitor's access."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._ended: dict[tuple[str, int], Seen] = {}  # they change no more
        self._running: dict[str, Asked] = {}
        self._due, self._left_s = "", 0.0  # at this look: the running job whose turn it is; server's time

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        known = client.jobs()
        jobs = sorted(known, key=lambda job: (not job.running, -job.end_ns))[:MOST]
        first = jobs[:WITH_VERDICT]
        self._running = {job.job: self._running[job.job] for job in first if job.job in self._running}
        self._ended = {key: self._ended[key] for key in map(_key, first) if key in self._ended}
        self._due = self._next([job.job for job in first if job.running and job.job in self._running])
        self._left_s = LOOK_S * (client.granted_share or SHARE)
        lines = [self._line(client, job, at < WITH_VERDICT) for at, job in enumerate(jobs)]
        return json.dumps({"jobs": [line._asdict() for line in lines], "known": len(known)}), True

    def _next(self, running: list[str]) -> str:
        """The job that is to be asked for first, if it is time: all at once would hold up others."""
        first = min(running, key=lambda job: self._running[job].again_s, default="")
        return first if first and self._now() >= self._running[first].again_s else ""

    def _line(self, client: Client, job: Job, with_verdict: bool) -> JobLine:
        seen = self._seen(client, job) if with_verdict and not job.removed else None
        verdict = seen.verdict if seen else None
        rate = verdict.examples_per_second if verdict else None
        return JobLine(
            job=job.job,
            state=job.state or ("running" if job.running else "ended"),
            running=job.running,
            begun=units.when(job.begin_ns, "%m-%d %H:%M"),
            lasted=units.number((job.end_ns - job.begin_ns) / 1e9, "s"),
            roles=", ".join(f"{count} {role}" for role, count in job.roles.items()),
            hosts=", ".join(job.hosts),
            user=", ".join(job.users),
            tags=job.tags,
            speed=units.rate(rate) if rate is not None and rate.value is not None else "",
            sparks=seen.sparks if seen else [],
            verdict=shortened(verdict) if verdict else "",
            headline=verdict.headline if verdict else "",
            kind=verdict.kind if verdict else "",
        )

    def _seen(self, client: Client, job: Job) -> Seen | None:
        key = _key(job)
        if key in self._ended:
            return self._ended[key]
        asked = self._running.get(job.job)
        seen = asked.seen if asked else None
        if (asked and job.running and job.job != self._due) or self._left_s <= 0:
            return seen
        found: Seen | None = None
        before = client.spent_s
        with suppress(ClientError):
            found = Seen(client.report(job.job, first_screen=True).verdict, _sparks(client, job.job))
        spent_s = client.spent_s - before
        self._left_s -= spent_s
        if job.running:
            pause_s = spent_s / (PART * (client.granted_share or SHARE))
            self._running[job.job] = Asked(found, self._now() + max(RUNNING_S, pause_s))
        elif found is not None:
            self._running.pop(job.job, None)
            self._ended[key] = found
        return found


def _key(job: Job) -> tuple[str, int]:
    """What of a job that is over changes no more is kept by this."""
    return job.job, job.end_ns


def _sparks(client: Client, job: str) -> list[float | None]:
    """Of the first role that trains, steps/s over its steps."""
    lines = client.step_overview(job, stretches=SPARKS).lines[:1]
    return [1 / one if math.isfinite(one) and one > 0 else None for line in lines for one in line.middle]


def shortened(verdict: Verdict) -> str:
    """In at most five words: "ps:1 stalls the workers", "healthy: bound by compute"."""
    found = verdict.bottleneck
    words = (found.sentence if found is not None else verdict.headline).split()
    if len(words) <= WORDS:
        return " ".join(words)
    # "CPU contention on every rank: it takes ..." and "not known: no steps were ..." need no more.
    begin = " ".join(words[:WORDS])
    whole, stop, _ = f"{begin} ".partition(": ")  # "ddp:0" has a colon, too
    return whole if stop else begin.rstrip(";,") if begin.endswith((";", ",")) else f"{begin} …"
