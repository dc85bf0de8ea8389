"""`roofline-client compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..step_range import parse_steps
from .options import (
    DEFAULT_SERVER,
    ServerOption,
    StepsOption,
    check_choice,
    reader_may_leave,
    resolve_job,
    safe,
    show,
)

COMPARE_FORMATS = ("text", "json", "csv", "md")


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="job id, or last")],
    second: Annotated[str, typer.Argument(metavar="B", help="the job that is compared with it")],
    server: ServerOption = DEFAULT_SERVER,
    output: Annotated[str, typer.Option("--format", help=", ".join(COMPARE_FORMATS))] = "text",
    steps: StepsOption = "",
) -> None:
    """Compare two jobs: which settings differ, and their effect."""
    check_choice(output, COMPARE_FORMATS, "--format")
    asked = parse_steps(steps)
    from ..api import connect
    from ..tables import job_comparisons

    with connect(server) as client:
        found = client.compare(resolve_job(client, first), resolve_job(client, second), *asked)
    if output == "md":
        from ..tables.markdown import markdown

        with reader_may_leave():
            print(safe(markdown(job_comparisons.as_text(found))), end="")
    else:
        show(output, found, job_comparisons, found.notes)
