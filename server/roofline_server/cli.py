"""Command line of the server."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
from typing import Annotated

import typer
from roofline.log_lines import SERVERS, before_error, log_to_stderr

from . import __version__
from .commands import backup, check, init, prune, status, tokens
from .commands.options import (
    CatalogOption,
    DataOption,
    KeepDaysOption,
    KeepGbOption,
    KeepTaggedOption,
    data_of,
)
from .errors import ServerError

# A disk that is full or fails, a quota that is used up, a file as large as it may be, a reader that has left.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)
app = typer.Typer(name="roofline-server", pretty_exceptions_enable=False, rich_markup_mode=None)
HELP = (
    "Receive the streams of all agents, store them, and answer roofline-client.\n\n"
    "Without options: serve on loopback, data in the XDG state directory. After `roofline-server init` once: "
    "at all addresses, with TLS, and only for agents and clients that have joined.\n\n"
    "Examples:\n\n"
    "\b\n"
    "  roofline-server                          for this machine alone\n"
    "  roofline-server init                     for a cluster: TLS and tokens, once\n"
    "  roofline-server token new --role reader  for a user to join with\n"
    "  roofline-server --keep-days 30           raw data of older jobs is removed\n"
    "  roofline-server status                   is the server here running, and healthy?\n"
    "  roofline-server --data /srv/roofline --listen 10.0.0.1:7642 --insecure\n\n"
    "Exit codes: 0 stopped by SIGTERM, SIGHUP or Ctrl-C, 1 failed, 2 usage, 3 wrong configuration, "
    "6 port or data directory is not available."
)


@app.callback(invoke_without_command=True, help=HELP)
def serve(
    context: typer.Context,
    listen: Annotated[
        str,
        typer.Option(
            envvar="ROOFLINE_LISTEN",
            help="HOST:PORT; port 0 takes a free one [127.0.0.1:7642; after init 0.0.0.0:7642]",
            show_default=False,
        ),
    ] = "",
    data: DataOption = None,
    catalog: CatalogOption = "",
    seal: Annotated[
        float,
        typer.Option(min=0.05, help="move data from the inbox to Parquet at least every so many seconds"),
    ] = 30.0,
    http: Annotated[
        str,
        typer.Option(
            envvar="ROOFLINE_HTTP",
            help="HOST:PORT of /healthz, /readyz and /metrics, or off [127.0.0.1:7643, after init --mutual "
            "7644, if that is free]",
            show_default=False,
        ),
    ] = "",
    page: Annotated[
        str,
        typer.Option(
            envvar="ROOFLINE_PAGE",
            help="HOST:PORT of the live page, or off [127.0.0.1:7645, if that is free]",
            show_default=False,
        ),
    ] = "",
    no_page: Annotated[bool, typer.Option("--no-page", help="the same as --page off")] = False,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="listen at any address without TLS and tokens: everybody is accepted"
        ),
    ] = False,
    keep_days: KeepDaysOption = None,
    keep_gb: KeepGbOption = None,
    keep_tagged: KeepTaggedOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="warnings only")] = False,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        print(f"roofline-server {__version__}")
        raise typer.Exit
    context.obj = data
    if context.invoked_subcommand is not None:
        return
    log_to_stderr("roofline-server", logging.WARNING if quiet else logging.INFO, SERVERS)
    from .serve import Options
    from .serve import serve as run
    from .upkeep import Keep

    keep = Keep(keep_days, keep_gb, tuple(keep_tagged or ()))
    page = "off" if no_page else page
    asyncio.run(run(Options(listen, data_of(data), catalog, insecure, seal, http, page, keep)))


app.command(help=init.HELP)(init.init)
app.command(help=prune.HELP)(prune.prune)
app.command(help=status.HELP)(status.status)
app.add_typer(tokens.app, name="token")
app.command(help=check.HELP)(check.check)
app.command(help=backup.HELP)(backup.backup)


def main() -> None:
    """Run the command line; every known error is one line and its own exit code."""
    try:
        try:
            app()
        finally:
            print(end="", flush=True)  # else Python does so as it ends, and complains
    except ServerError as error:
        print(f"{before_error()}roofline-server: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        print(f"roofline-server: the output cannot be written ({error.strerror})", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is still buffered
        sys.exit(1)
