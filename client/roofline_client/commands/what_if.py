"""`roofline-client what-if`."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from ..errors import NotFound
from .options import (
    DEFAULT_SERVER,
    FormatOption,
    JobArgument,
    OptionalJobOption,
    ServerOption,
    check_format,
    check_positive,
    one_job,
    resolve_job,
    show,
)

RanksOption = Annotated[
    int | None, typer.Option("--ranks", min=1, help="number of ranks that train (workers)")
]
ServersOption = Annotated[int | None, typer.Option("--ps", min=1, help="number of parameter servers")]
BatchOption = Annotated[float | None, typer.Option("--batch", help="examples per rank and step")]
BandwidthOption = Annotated[
    str,
    typer.Option("--bandwidth", help="bandwidth of the links between ranks: 2x, 25Gbit, 3GB (per second)"),
]
FixOption = Annotated[
    str,
    typer.Option(
        "--fix", help="a rank (ddp:1, ps:0) or a part of the step, as reports name it (input), to fix"
    ),
]
_BANDWIDTH = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*(x|[kMGT]?(?:bit|B))(?:/s)?")
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def what_if(
    which: JobArgument = "",
    job: OptionalJobOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    ranks: RanksOption = None,
    ps: ServersOption = None,
    batch: BatchOption = None,
    bandwidth: BandwidthOption = "",
    fix: FixOption = "",
) -> None:
    """Predict a job with other ranks, batch size or links.

    Also with another number of parameter servers, or with one problem fixed.
    """
    check_format(output)
    asked = one_job(which, job)
    times, speed = parse_bandwidth(bandwidth)
    check_positive({"--batch": batch})
    if not any((ranks, ps, batch, bandwidth, fix)):
        raise typer.BadParameter("give --ranks, --ps, --batch, --bandwidth or --fix")
    from ..api import connect
    from ..tables import what_if as predictions

    changes = {"ranks": ranks, "servers": ps, "batch": batch, "bandwidth": speed, "bandwidth_times": times}
    with connect(server) as client:
        found = client.what_if(resolve_job(client, asked), **changes, fix=fix)
    show(output, found, predictions, found.notes)
    if found.step.then.value is None:
        raise typer.Exit(NotFound.exit_code)  # the answer says why it cannot be predicted


def parse_bandwidth(given: str) -> tuple[float | None, float | None]:
    """(times, byte/s), one of them, of "2x", "25Gbit" or "3GB"; neither of "". Raises BadParameter."""
    if not given:
        return None, None
    match = _BANDWIDTH.fullmatch(given.strip())
    if match is None or not float(match[1]) > 0:
        raise typer.BadParameter(
            f"{given!r} is no bandwidth; write 2x, 25Gbit or 3GB", param_hint="--bandwidth"
        )
    if match[2] == "x":
        return float(match[1]), None
    bits = match[2].endswith("bit")
    scale = _SCALES[match[2].removesuffix("bit").removesuffix("B")]
    return None, float(match[1]) * scale / (8 if bits else 1)
