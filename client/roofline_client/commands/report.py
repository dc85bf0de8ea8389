"""`roofline-client report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..step_range import parse_steps
from .options import (
    DEFAULT_SERVER,
    FormatOption,
    JobOption,
    ServerOption,
    StepsOption,
    check_ending,
    check_format,
    show,
)


def report(
    job: JobOption,
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    steps: StepsOption = "",
    plot: Annotated[
        Path | None, typer.Option(help="also write the roofline to FILE.png, .svg or .pdf")
    ] = None,
) -> None:
    """What each role and rank of a job reached, against the roof of its node."""
    check_format(output)
    first, last = parse_steps(steps)
    if plot is not None:
        check_ending(plot, "--plot")
    from ..api import connect
    from ..tables import reports

    with connect(server) as client:
        found = client.report(job, first, last)
        drawn = None if plot is None else client.roofline(job, first_step=first, last_step=last)
    show(output, found, reports)
    if plot is not None:
        from ..plots import draw

        draw("roofline", drawn, plot)
        print(f"roofline written to {plot}", file=sys.stderr)
