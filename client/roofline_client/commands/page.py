"""`roofline-client page`."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from .options import DEFAULT_SERVER, ServerOption

LISTEN = "127.0.0.1:7646"  # not the port of the page next to a server
BESIDE_A_SERVER = 10  # niceness: what takes batches goes first


def page(
    server: ServerOption = DEFAULT_SERVER,
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT where browsers find the page")] = LISTEN,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="each visitor logs in with a reader's token of his own")
    ] = False,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="speak TLS with this certificate (PEM)")
    ] = None,
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
    key: Annotated[Path | None, typer.Option("--key", help="the key of the certificate (PEM)")] = None,
) -> None:
    """Show jobs in a browser, live; until Ctrl-C.

    Without --tokens, whoever has the printed address sees the jobs that you may see.
    """
    from ..page.serve import Place, check_identity, run, settings

    host, colon, port = listen.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"--listen {listen!r} must be HOST:PORT, e.g. {LISTEN}")
    if bool(certificate) != bool(key):
        raise UsageError("--certificate and --key belong together")
    if until_stdin_ends:
        with contextlib.suppress(OSError):  # services may be kept from it (systemd: ~@resources)
            os.nice(BESIDE_A_SERVER)
    place = Place(host, int(port), certificate, key)
    if not place.is_private and certificate is None:
        raise UsageError(
            f"--listen {listen} can be reached by others, who could read tokens on their way: add "
            f"--certificate and --key, or listen on {LISTEN} and forward that port by ssh -L"
        )
    if certificate and key:
        check_identity(certificate, key)
    found = settings(server, place, "" if tokens else secrets.token_urlsafe(16))
    if tokens and found.is_open and not until_stdin_ends:
        print(
            f"roofline-client: the server at {found.server} asks for no tokens: everybody on this machine "
            "sees the page",
            file=sys.stderr,
        )
    behind = f"#{found.code}" if found.code else ""
    where = f"{place.address}/{behind}"
    says = f"the live page: {where}" if until_stdin_ends else f"the page is at {where}  (Ctrl-C ends it)"
    run(found, place, lambda: print(f"roofline-client: {says}", file=sys.stderr), until_stdin_ends)
