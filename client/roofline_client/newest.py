"""Which job is meant by "last"."""

from __future__ import annotations

from typing import Any

from .errors import NotFound

LAST = "last"  # the newest job


def resolve_job(client: Any, job: str) -> str:
    """The id of a job; of "last" the newest one. Raises NotFound where there is none."""
    if job != LAST:
        return job
    jobs = client.jobs()
    if not jobs:
        raise NotFound("no jobs yet: start `roofline-agent` on the nodes and a training")
    return str(max(jobs, key=lambda one: one.begin_ns).job)
