"""`roofline-client timeline`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..step_range import either
from .options import (
    DEFAULT_SERVER,
    FromOption,
    JobArgument,
    OptionalJobOption,
    Progress,
    RangeOption,
    RanksOption,
    ServerOption,
    ToOption,
    check_file,
    one_job,
    resolve_job,
    tell,
)

ENDINGS = (".json", ".json.gz")


def timeline(
    file: Annotated[Path, typer.Option("-o", "--output", help="FILE.json, or FILE.json.gz (compressed)")],
    which: JobArgument = "",
    job: OptionalJobOption = "",
    server: ServerOption = DEFAULT_SERVER,
    rank: RanksOption = None,
    steps: RangeOption = "",
    first: FromOption = None,
    last: ToOption = None,
    kernels: Annotated[bool, typer.Option("--kernels", help="include every kernel call")] = False,
) -> None:
    """Write what all ranks did when, on one clock, for Perfetto.

    Open the file in https://ui.perfetto.dev or chrome://tracing.

    Each rank has rows for its steps, phases, and the collectives it asked for and its engine executed.
    """
    first, last = either(steps, first, last)
    check_file(file, ENDINGS, "-o")
    asked = one_job(which, job)
    from ..api import connect
    from ..files import written
    from ..trace import write_trace

    progress = Progress(f"timeline of job {asked}")
    with connect(server) as client, progress, written(file) as out:
        pieces = client.timeline_arrays(resolve_job(client, asked), rank or (), first, last, kernels)
        found = write_trace(pieces, out, lambda events: progress.say(f"{events:,} events"))
    tell(found.notes)
    if found.dropped:
        print(f"roofline-client: note: {found.dropped:,} slices left out: too many at once", file=sys.stderr)
    ranks = "1 rank" if found.ranks == 1 else f"{found.ranks} ranks"
    print(f"timeline of {ranks}, {found.slices:,} slices, written to {file}", file=sys.stderr)
