"""`roofline-client trace`."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import (
    DEFAULT_SERVER,
    FormatOption,
    JobArgument,
    OptionalJobOption,
    Progress,
    RanksOption,
    ServerOption,
    check_format,
    one_job,
    resolve_job,
    show,
)

MOST_STEPS = 20


def trace(
    which: JobArgument = "",
    job: OptionalJobOption = "",
    steps: Annotated[
        int, typer.Option("--steps", min=1, max=MOST_STEPS, help="how many of the next steps")
    ] = 3,
    rank: RanksOption = None,
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
) -> None:
    """Have ranks of a running job trace their next steps.

    They use their framework's own profiler.

    The command waits until the steps are done and read, and says for each rank what was recorded, or why
    nothing was. The job then contains the kernels, or the operators on a CPU, with FLOPs from their shapes.
    Traced steps are slower, so means and verdicts leave them out. The ranks must have been started by
    `roofline-agent run`; for a job that has not begun, `roofline-agent run --trace 100-102` traces chosen
    steps. Needs an admin's token, because it slows the job down. Ctrl-C ends the waiting, not the trace.
    Exit code 3 if nothing was recorded.
    """
    check_format(output)
    asked = one_job(which, job)
    from ..api import connect
    from ..tables import traces as form

    with connect(server) as client:
        asked = resolve_job(client, asked)
        progress = Progress(f"trace of job {asked}")
        with progress:
            found = form.gathered(asked, client.trace(asked, steps, rank or ()), progress.say)
    show(output, found, form, found.notes)
    if not found.recorded:
        raise typer.Exit(3)
