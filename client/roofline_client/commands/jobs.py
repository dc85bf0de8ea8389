"""`roofline-client jobs`."""

from __future__ import annotations

from .options import DEFAULT_SERVER, FormatOption, ServerOption, check_format, reader_may_leave, show


def jobs(server: ServerOption = DEFAULT_SERVER, output: FormatOption = "text") -> None:
    """List all jobs, newest first."""
    check_format(output)
    from ..api import connect
    from ..tables import jobs as form

    with connect(server) as client:
        found = client.jobs()
    if found or output != "text":
        show(output, found, form)
    else:
        with reader_may_leave():
            print("no jobs yet: start `roofline-agent` on the nodes and a training")
