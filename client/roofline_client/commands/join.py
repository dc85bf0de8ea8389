"""`roofline-client join`: make this user known to a server that asks for it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ..address import check_address
from ..errors import Refused


def join(
    server: Annotated[str, typer.Argument(metavar="HOST:PORT", help="address of roofline-server")],
    token: Annotated[
        str,
        typer.Argument(
            metavar="TOKEN", help="from `roofline-server token new --role reader`; - reads it from stdin"
        ),
    ],
) -> None:
    """Join a server with TLS and tokens, once. From then on it is the default server.

    The credentials are stored in ~/.config/roofline/servers.json, readable by this user only."""
    from roofline.joining import CannotJoin, check_can_save, client_file, load_servers, save_servers, who

    from ..channel import enrolled

    check_address(server)
    text = sys.stdin.readline() if token == "-" else token
    file = client_file(os.environ)
    try:
        check_can_save(file)
        access, role = enrolled(server, text, who(os.environ))
        save_servers(file, load_servers(file).joined(server, access))
    except CannotJoin as error:
        raise Refused(str(error)) from None
    print(f"joined {server} as {role}: `roofline-client jobs` asks it")
