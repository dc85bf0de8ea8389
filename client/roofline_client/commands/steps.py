"""`roofline-client steps`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..step_range import either
from .options import (
    DEFAULT_SERVER,
    FormatOption,
    FromOption,
    JobArgument,
    OptionalJobOption,
    RangeOption,
    RanksOption,
    ServerOption,
    ToOption,
    check_format,
    one_job,
    reader_may_leave,
    resolve_job,
    tell,
)


def steps(
    which: JobArgument = "",
    job: OptionalJobOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    rank: RanksOption = None,
    chosen: RangeOption = "",
    first: FromOption = None,
    last: ToOption = None,
    newest: Annotated[int, typer.Option("--last", min=0, help="rows shown as text; 0: all")] = 20,
) -> None:
    """One row per rank and step: its time, work, bytes and phases.

    The text shows the newest rows; csv and json all of them and every column, times in ns of the server's
    UNIX clock, numbers exact. A value nobody measured is '-', an empty cell or null.
    """
    check_format(output)
    first, last = either(chosen, first, last)
    asked = one_job(which, job)
    from .. import export as exporting
    from ..api import connect
    from ..tables import steps as table
    from ..tables import text

    with connect(server) as client, reader_may_leave():
        asked = resolve_job(client, asked)
        chunks = client.steps(asked, rank or (), first, last)
        if output == "json":
            table.write_json(asked, chunks, sys.stdout)
        elif output == "csv":
            for chunk in exporting.write_csv(chunks, sys.stdout):
                tell(chunk.notes)
        else:
            text.show(table.as_text(asked, table.newest(chunks, newest)))
