"""`roofline-client machines`."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import DEFAULT_SERVER, FormatOption, ServerOption, check_format, reader_may_leave, show

MoreArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="HOST", help="this host, as --host; after --compare further hosts"),
]
HostOption = Annotated[str, typer.Option("--host", help="only this host")]
HistoryOption = Annotated[bool, typer.Option("--history", help="include earlier versions")]
CompareOption = Annotated[
    list[str] | None,
    typer.Option("--compare", metavar="HOST", help="ceilings side by side; HOST@2 is its version 2"),
]


def machines(
    more: MoreArgument = None,
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    host: HostOption = "",
    history: HistoryOption = False,
    compare: CompareOption = None,
) -> None:
    """List the machines with their ceilings, or compare them.

    --compare takes hosts, or versions of one host: HOST@1 HOST@2.

    A machine has a new version whenever its ceilings or its hardware change; a job keeps the version that was
    true when it ran.
    """
    check_format(output)
    if more and not compare:
        if len(more) > 1 or host:
            raise typer.BadParameter("one host alone, or several with --compare", param_hint="HOST")
        host, more = more[0], None
    asked = [*(compare or ()), *(more or ())]
    if asked and host:
        raise typer.BadParameter("goes with the list, not with --compare", param_hint="--host")
    if len(asked) == 1:
        raise typer.BadParameter(
            "give at least two, as node1 node2 or node1@1 node1@2", param_hint="--compare"
        )
    from ..api import connect
    from ..tables import machine_comparisons
    from ..tables import machines as form

    with connect(server) as client:
        known = client.machines(host, history=history or bool(asked))
    if asked:
        show(output, machine_comparisons.chosen(known, asked), machine_comparisons)
    elif known or output != "text":
        show(output, known, form)
    else:
        with reader_may_leave():
            print("no machines yet: start `roofline-agent` on the nodes")
