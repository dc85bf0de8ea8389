"""`roofline-client trajectory`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..step_range import parse_steps
from .options import (
    DEFAULT_SERVER,
    OVER,
    ExperimentOption,
    FormatOption,
    JobsOption,
    RolesOption,
    ServerOption,
    StepsOption,
    check_format,
    check_jobs,
    resolve_job,
    show,
)

OverOption = Annotated[str, typer.Option("--over", help=OVER)]


def trajectory(
    over: OverOption,
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    experiment: ExperimentOption = "",
    job: JobsOption = None,
    role: RolesOption = None,
    steps: StepsOption = "",
) -> None:
    """How roles move under their roof over jobs of an experiment.

    With throughput and scaling efficiency.
    """
    check_format(output)
    check_jobs(experiment, job)
    first, last = parse_steps(steps)
    from ..api import connect
    from ..tables import trajectories

    with connect(server) as client:
        jobs = [resolve_job(client, one) for one in job or ()]
        found = client.trajectory(experiment, jobs, over, role or (), first, last)
    show(output, found, trajectories, found.notes)
