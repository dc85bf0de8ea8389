"""Names of jobs that mean something else when a job is asked for: "last" is the newest job, "42/2" the second
run of job 42. No I/O."""

from __future__ import annotations

import re

LAST = "last"
_RUN = re.compile(r"(.+)/([1-9][0-9]{0,8})", re.DOTALL)  # as the server reads it


def problem_of(job: str) -> str:
    """Why a job that is called so could not be asked for, and what to do; "": it can."""
    if job == LAST:
        return f"{LAST!r} stands for the newest job wherever a job is asked for: choose another name"
    if run := _RUN.fullmatch(job):
        return f"{job!r} stands for run {run[2]} of job {run[1]!r}: choose another name, as {askable(job)!r}"
    return ""


def askable(job: str) -> str:
    """The name, or the nearest one that a job can be asked for by: "job-last", "42-2"."""
    if job == LAST:
        return f"job-{LAST}"
    run = _RUN.fullmatch(job)
    return f"{run[1]}-{run[2]}" if run else job
