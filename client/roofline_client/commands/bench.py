"""`roofline-client bench net`."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import DEFAULT_SERVER, FormatOption, Progress, ServerOption, check_format, show

bench = typer.Typer(
    name="bench", help="Let agents measure the network between their nodes.", no_args_is_help=True
)
EXAMPLES = (
    "Examples:\n\n"
    "\b\n"
    "  roofline-client bench net --from node1 --to node2\n"
    "  roofline-client bench net --from node1 --to node2 --quick --format json | jq .ceilings\n\n"
    "Exit codes: 0 measured; 1 failed; 2 usage; 3 not possible now, or interrupted (a job runs "
    "there, an agent is not connected, busy, too old, or went away; the nodes cannot reach each other); 4 no "
    "server answers; 5 no such host; 130 Ctrl-C, at which both agents stop."
)


@bench.command(epilog=EXAMPLES)
def net(
    source: Annotated[str, typer.Option("--from", help="hostname of the node that sends")],
    target: Annotated[str, typer.Option("--to", help="hostname of the node that receives")],
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    quick: Annotated[
        bool, typer.Option("--quick", help="only some latencies and bandwidths, about 5 s instead of 40 s")
    ] = False,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            help="seconds per measurement, 0.1 to 10; there are about 40 (default 0.9, with --quick 0.6)",
            show_default=False,
        ),
    ] = 0.0,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="measure even while a job runs on these nodes, which slows the job down"
        ),
    ] = False,
    address: Annotated[
        str,
        typer.Option(
            metavar="IP",
            help="address of the receiving node in the network to measure",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Measure the network between two nodes, by TCP and by gRPC.

    Point-to-point latency and bandwidth, and the throughput of a parameter server, with the payloads of
    TF-gRPC-Bench (Biswas, Lu, Panda 2018): uniform, random and skewed, serialized and not. It becomes the
    network ceiling of the node that sends. Needs an agent on both nodes; run it when they are idle.
    """
    check_format(output)
    from ..api import connect
    from ..tables import bench as form

    progress = Progress(f"network from {source} to {target}")
    with connect(server) as client, progress:
        events = client.bench_net(source, target, seconds, quick, force, address)
        found = form.gathered(source, target, events, progress.say)
    show(output, found, form, found.notes)
