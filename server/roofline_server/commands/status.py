"""`roofline-server status`: how the server of a data directory does."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from .options import DataOption, FormatOption, data_of

HELP = (
    "Show whether a server is running, and what needs attention.\n\n"
    "Examples:\n\n"
    "\b\n"
    "  roofline-server status\n"
    "  roofline-server status --data /var/lib/roofline/server --format json\n\n"
    "Exit codes: 0 ready, 1 not ready or no answer, 2 usage, 3 not running, 6 this user may not read the "
    "data directory."
)


def status(
    context: typer.Context,
    output: FormatOption = "text",
    timeout: Annotated[float, typer.Option(min=0.1, help="seconds to wait for an answer")] = 5.0,
    data: DataOption = None,
) -> None:
    from ..health import report
    from ..health.look import look

    found = look(data_of(data, context.obj), timeout)
    if output == "json":
        fields = {**asdict(found), "data": str(found.data)}
        print(json.dumps({"state": found.state, **fields, "warnings": report.warnings(found)}, indent=2))
    else:
        print(report.text(found))
    raise typer.Exit(found.exit_code)
