"""`roofline-client stragglers`."""

from __future__ import annotations

from ..step_range import either
from .options import (
    DEFAULT_SERVER,
    FormatOption,
    FromOption,
    JobArgument,
    OptionalJobOption,
    ServerOption,
    StepsOption,
    ToOption,
    check_format,
    one_job,
    resolve_job,
    show,
)


def stragglers(
    which: JobArgument = "",
    job: OptionalJobOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    steps: StepsOption = "",
    first: FromOption = None,
    last: ToOption = None,
) -> None:
    """Which rank the others wait for, with the evidence."""
    check_format(output)
    asked = one_job(which, job)
    chosen = either(steps, first, last)
    from ..api import connect
    from ..tables import stragglers as waits

    with connect(server) as client:
        found = client.stragglers(resolve_job(client, asked), *chosen)
    show(output, found, waits, found.notes)
