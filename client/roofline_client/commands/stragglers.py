"""`roofline-client stragglers`."""

from __future__ import annotations

from ..step_range import checked
from .options import (
    DEFAULT_SERVER,
    FormatOption,
    FromOption,
    JobOption,
    ServerOption,
    ToOption,
    check_format,
    show,
)


def stragglers(
    job: JobOption,
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    first: FromOption = None,
    last: ToOption = None,
) -> None:
    """Which rank the others wait for, with the evidence."""
    check_format(output)
    checked(first, last)
    from ..api import connect
    from ..tables import stragglers as waits

    with connect(server) as client:
        found = client.stragglers(job, first, last)
    show(output, found, waits)
