"""`roofline-client breakdown`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..step_range import parse_steps
from .options import (
    DEFAULT_SERVER,
    FormatOption,
    JobArgument,
    OptionalJobOption,
    RanksOption,
    ServerOption,
    StepsOption,
    check_choice,
    check_format,
    one_job,
    resolve_job,
    show,
)

BY = ("role", "rank")


def breakdown(
    which: JobArgument = "",
    job: OptionalJobOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    by: Annotated[str, typer.Option(help="one breakdown per: role, rank")] = "role",
    steps: StepsOption = "",
    rank: RanksOption = None,
) -> None:
    """Parts of a job's work, traffic and time.

    Vector widths, precisions, memory levels, kernels, phases.
    """
    check_format(output)
    check_choice(by, BY, "--by")
    asked = one_job(which, job)
    first, last = parse_steps(steps)
    from ..api import connect
    from ..tables import breakdowns

    with connect(server) as client:
        asked = resolve_job(client, asked)
        found = client.breakdown(asked, by, first_step=first, last_step=last, ranks=rank or ())
    show(output, found, breakdowns, found.notes)
