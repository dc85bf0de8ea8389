"""The list of jobs as text, as JSON and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.answers.jobs import Job

from . import flat, units
from .columns import Column, Columns
from .documents import document
from .names import tagged

SCHEDULERS = ("slurm.", "kubernetes.", "launcher.")
SHOWN = ("slurm.account", "slurm.array")


def as_text(jobs: Sequence[Job]) -> Columns:
    names = [Column("job"), Column("state", folds=True), Column("since (UTC)"), Column("seconds", right=True)]
    table = Columns("", [*names, *(Column(name, folds=True) for name in ("ranks", "nodes", "tags"))])
    for job in jobs:
        since = units.when(job.begin_ns, "%Y-%m-%d %H:%M:%S")
        roles = " ".join(f"{role}x{count}" for role, count in job.roles.items())
        seconds = f"{(job.end_ns - job.begin_ns) / 1e9:.0f}"
        state = job.state or ("running" if job.running else "ended")
        if job.removed:
            state += f"; removed: {job.removed}"
        table.add(job.job, state, since, seconds, roles, ", ".join(job.hosts), tagged(_shown(job.tags)))
    return table


def _shown(tags: Mapping[str, str]) -> dict[str, str]:
    """Of what schedulers say only what tells jobs of a list apart; JSON and CSV have all of it."""
    return {name: text for name, text in tags.items() if name in SHOWN or not name.startswith(SCHEDULERS)}


def as_csv(jobs: Sequence[Job]) -> str:
    """A row a job."""
    return flat.as_csv(tables(jobs)["jobs"])


def tables(jobs: Sequence[Job]) -> dict[str, flat.Table]:
    """jobs: a row each."""
    return {"jobs": flat.table(Job, jobs)}


def as_json(jobs: Sequence[Job]) -> str:
    """Raises ClientError for a number that JSON cannot hold."""
    return document(jobs=list(jobs))
