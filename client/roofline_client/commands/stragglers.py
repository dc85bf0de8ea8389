"""`roofline-client stragglers`."""

from __future__ import annotations

from ..step_range import checked
from .options import (
    DEFAULT_SERVER,
    FormatOption,
    FromOption,
    JobArgument,
    OptionalJobOption,
    ServerOption,
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
    first: FromOption = None,
    last: ToOption = None,
) -> None:
    """Which rank the others wait for, with the evidence."""
    check_format(output)
    asked = one_job(which, job)
    checked(first, last)
    from ..api import connect
    from ..tables import stragglers as waits

    with connect(server) as client:
        found = client.stragglers(resolve_job(client, asked), first, last)
    show(output, found, waits)
