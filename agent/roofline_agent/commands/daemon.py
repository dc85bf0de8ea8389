"""`roofline-agent` without a command: be the daemon of this node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from .options import GivenSettings, load_config, silence_grpc
from .serve import restart

ServerOption = Annotated[
    str | None,
    typer.Option("--server", help="HOST:PORT of roofline-server [the one joined last, else 127.0.0.1:7642]"),
]
IntervalOption = Annotated[float | None, typer.Option(help="seconds between samples, 0.01 to 60 [1.0]")]
JobOption = Annotated[str | None, typer.Option(help="job id of ranks whose environment names none")]
SocketOption = Annotated[str | None, typer.Option(help="Unix socket for marks")]
StateOption = Annotated[str | None, typer.Option(help="directory for spool, identity and ceilings")]
SourcesOption = Annotated[str | None, typer.Option(help="only these sources, comma-separated")]
OtlpOption = Annotated[
    str | None,
    typer.Option("--otlp", help="where trainings send spans by OTLP/HTTP, as 127.0.0.1:4318 [off]"),
]
ConfigOption = Annotated[Path | None, typer.Option(help="TOML file with the same settings")]


def daemon(
    context: typer.Context,
    server: ServerOption = None,
    interval: IntervalOption = None,
    job: JobOption = None,
    socket: SocketOption = None,
    state: StateOption = None,
    sources: SourcesOption = None,
    otlp: OtlpOption = None,
    config: ConfigOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="warnings only")] = False,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        print(f"roofline-agent {__version__}")
        raise typer.Exit
    flags = {
        "server": server,
        "interval": interval,
        "job": job,
        "socket": socket,
        "state": state,
        "otlp": otlp,
        "sources": sources.split(",") if sources else None,
    }
    context.obj = GivenSettings(config, flags)
    if context.invoked_subcommand is not None:
        return

    silence_grpc()
    restart(load_config(context), quiet)
