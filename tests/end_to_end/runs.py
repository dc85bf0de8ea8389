"""Trainings that end, and their reports."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from roofline_client import connect

from .conftest import Site, wait_until

STEPS, SECONDS = 30, 0.02
JOB = f"runs-{os.getpid()}"  # of no other training on this machine


def train(site: Site, job: str = JOB, steps: int = STEPS) -> None:
    """One training, from its start to its end."""
    assert site.rank("worker", 0, steps, SECONDS, 8, job=job).wait(timeout=60) == 0


def states(site: Site) -> dict[str, str]:
    with connect(site.address, timeout=20) as client:
        return {job.job: job.state for job in client.jobs() if job.job.startswith(JOB)}


def until_finished(site: Site, *jobs: str) -> dict[str, str]:
    """The states of all jobs, once these are what there is and none of them runs."""
    return wait_until(
        lambda: (
            found if (found := states(site)).keys() == set(jobs) and "running" not in found.values() else None
        ),
        what=f"jobs are {jobs}",
    )


def whole_report(site: Site, job: str) -> dict[str, Any]:
    """Without the bounds on errors of clocks, which later exchanges with the agent may change."""
    done = site.ask("report", job, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    for node in found["alignment"]:
        del node["error"]
    return found


def report_that_stays(site: Site) -> dict[str, Any]:
    """Once its last steps are stored."""
    found = [whole_report(site, JOB)]

    def stays() -> bool:
        time.sleep(3)
        found.append(whole_report(site, JOB))
        return found[-1] == found[-2]

    wait_until(stays, what="the report is what it was before")
    return found[-1]
