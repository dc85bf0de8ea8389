"""`roofline-client roofline`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..step_range import parse_steps
from .options import (
    DEFAULT_SERVER,
    FormatOption,
    JobOption,
    RanksOption,
    ServerOption,
    StepsOption,
    check_choice,
    check_format,
    show,
)

POINTS = ("role", "rank", "step", "phase", "kernel")
# What a point can be, the default first.
KINDS = {
    "classic": ("rank", *POINTS),
    "hierarchical": ("rank", *POINTS),
    "network": ("rank", "role", "rank"),
    "time": ("kernel", "kernel", "step"),
}


def roofline(
    job: JobOption,
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    kind: Annotated[str, typer.Option(help="classic, hierarchical, network or time")] = "classic",
    points: Annotated[
        str,
        typer.Option(help="a point is a role, rank, step, phase or kernel (of --kind time: kernel or step)"),
    ] = "",
    steps: StepsOption = "",
    rank: RanksOption = None,
) -> None:
    """How far roles, ranks, steps, phases or kernels are from their roof, and what holds them back.

    classic: over least traffic or DRAM; hierarchical: over every level of memory; network: over bytes sent;
    time: complexity and run time of kernels in one plane, with what launches cost.
    """
    check_format(output)
    check_choice(kind, tuple(KINDS), "--kind")
    points = points or KINDS[kind][0]
    check_choice(points, KINDS[kind][1:], f"--points of --kind {kind}")
    first, last = parse_steps(steps)
    subject: dict[str, Any] = {"first_step": first, "last_step": last, "ranks": rank or ()}
    from .. import rooflines, time_rooflines
    from ..api import connect

    with connect(server) as client:
        if kind == "time":
            show(output, client.time_roofline(job, points=points, **subject), time_rooflines)
        else:
            show(output, client.roofline(job, kind, points, **subject), rooflines)
