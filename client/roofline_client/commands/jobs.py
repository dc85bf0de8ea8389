"""`roofline-client jobs`."""

from __future__ import annotations

from .options import DEFAULT_SERVER, FormatOption, ServerOption, check_format, reader_may_leave, safe


def jobs(server: ServerOption = DEFAULT_SERVER, output: FormatOption = "text") -> None:
    """List the jobs the server has heard of, newest first."""
    check_format(output)
    from ..api import connect
    from ..tables import flat, text
    from ..tables import jobs as form

    with connect(server) as client:
        found = client.jobs()
    with reader_may_leave():
        if output == "json":
            print(form.as_json(found))
        elif output == "csv":
            print(safe(flat.as_csv(form.tables(found)["jobs"])), end="")
        elif found:
            text.show(form.as_text(found))
        else:
            print("no jobs yet: start `roofline-agent` on the nodes and a training")
