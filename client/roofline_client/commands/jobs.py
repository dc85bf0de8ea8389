"""`roofline-client jobs`."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import DEFAULT_SERVER, FormatOption, ServerOption, check_format, reader_may_leave, show

NEWEST = 50  # a cluster's tests may make tens of thousands of jobs a day
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", min=1, help=f"only so many, the newest [{NEWEST} as text, else all]"),
]
AllOption = Annotated[bool, typer.Option("--all", help="all of them")]


def jobs(
    server: ServerOption = DEFAULT_SERVER,
    limit: LimitOption = None,
    all_jobs: AllOption = False,
    output: FormatOption = "text",
) -> None:
    """List jobs, newest first: as text the newest 50."""
    check_format(output)
    if all_jobs and limit is not None:
        raise typer.BadParameter("all jobs, or so many? leave one out", param_hint="--limit and --all")
    from ..api import connect
    from ..tables import jobs as form

    newest = 0 if all_jobs or (limit is None and output != "text") else limit or NEWEST
    with connect(server) as client:
        found, older = client.newest_jobs(newest)
    if found or output != "text":
        show(output, found, form)
        if older and output == "text":
            with reader_may_leave():
                print(f"... and {older:,} more (--all)")
    else:
        with reader_may_leave():
            print("no jobs yet: start `roofline-agent` on the nodes and a training")
