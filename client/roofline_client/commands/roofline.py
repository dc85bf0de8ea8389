"""`roofline-client roofline`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ..step_range import parse_steps
from .options import (
    DEFAULT_SERVER,
    OVER,
    ExperimentOption,
    FormatOption,
    JobArgument,
    JobsOption,
    RanksOption,
    ServerOption,
    StepsOption,
    check_choice,
    check_format,
    check_jobs,
    resolve_job,
    show,
    these_jobs,
)

POINTS = ("role", "rank", "step", "phase", "kernel", "layer")
# What a point can be, the default first.
KINDS = {
    "classic": ("rank", *POINTS),
    "hierarchical": ("rank", *POINTS),
    "network": ("rank", "role", "rank"),
    "time": ("kernel", "kernel", "step"),
}
POINTS_HELP = (
    "one point per: role, rank (default), step, phase, kernel, layer of traced steps; with --kind network "
    "role or rank; with --kind time kernel (default) or step"
)
SEVERAL = ("time", "trajectory")  # kinds that show several jobs


def roofline(
    which: JobArgument = "",
    job: JobsOption = None,
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    kind: Annotated[str, typer.Option(help="classic, hierarchical, network or time")] = "classic",
    points: Annotated[str, typer.Option(help=POINTS_HELP)] = "",
    steps: StepsOption = "",
    rank: RanksOption = None,
    experiment: ExperimentOption = "",
    over: Annotated[str, typer.Option(help=f"the parameter in which several jobs differ: {OVER}")] = "",
) -> None:
    """How far ranks or kernels are from their roof, and why.

    --points also shows roles, steps, phases or layers.

    --kind classic uses bytes of tensors or DRAM; hierarchical: bytes of each memory level; network: bytes
    sent; time: complexity and run time of kernels in one plane, with the cost of launches. --kind time with
    --over shows several jobs, chosen by --experiment or --job.
    """
    check_format(output)
    check_choice(kind, tuple(KINDS), "--kind")
    points = points or KINDS[kind][0]
    check_choice(points, KINDS[kind][1:], f"--points of --kind {kind}")
    jobs = these_jobs(which, job)
    check_subject(kind, jobs, experiment, over)
    first, last = parse_steps(steps)
    subject: dict[str, Any] = {"first_step": first, "last_step": last, "ranks": rank or ()}
    from ..api import connect
    from ..tables import rooflines, time_rooflines

    with connect(server) as client:
        jobs = [resolve_job(client, one) for one in jobs]
        if kind == "time":
            found = ask_time(client, jobs, experiment, over, points, subject)
            form: Any = time_rooflines
        else:
            found = client.roofline(jobs[0], kind, points, **subject)
            form = rooflines
    show(output, found, form, found.notes)


def check_subject(kind: str, jobs: list[str], experiment: str, over: str) -> None:
    """One job, or several of what can show several. Raises BadParameter."""
    if kind not in SEVERAL:
        if experiment or over or len(jobs) != 1:
            raise typer.BadParameter(
                f"--kind {kind} is of one job: give --job once, and no --experiment or --over"
            )
        return
    check_jobs(experiment, jobs)
    if not over and (kind == "trajectory" or experiment or len(jobs) > 1):
        raise typer.BadParameter("--over is missing: what differs between the jobs, as nodes or batch")


def ask_time(
    client: Any, jobs: Sequence[str], experiment: str, over: str, points: str, subject: dict[str, Any]
) -> Any:
    """The time roofline of one job, or of several in one plane."""
    several = experiment or len(jobs) > 1
    whose = ("", experiment, jobs if several else ()) if several else (jobs[0], "", ())
    return client.time_roofline(*whose, over, points, **subject)
