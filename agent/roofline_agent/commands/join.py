"""`roofline-agent join`: make this node known to a server that asks for it."""

from __future__ import annotations

import os
import socket
import sys
from typing import Annotated

import typer

from .options import load_config, silence_grpc


def join(
    context: typer.Context,
    server: Annotated[str, typer.Argument(metavar="HOST:PORT", help="address of roofline-server")],
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="from `roofline-server token new`; - reads it from stdin")
    ],
) -> None:
    """Join a server with TLS and tokens: once on each node.

    The token contains the fingerprint of the server's authority, so the node joins the right server or none.
    The node gets a token of its own, kept in --state and readable by this user only; from then on the agent
    connects to this server.

    Examples:

    \b
      roofline-agent join head:7642 - <<< roofline1.PdUE....
      roofline-agent join head:7642 - < token
      roofline-agent join head:7642 roofline1.PdUE....       (other users see it while it runs)

    Exit codes: 0 joined, 3 the address or the token is wrong, 4 the server does not answer or refuses.
    """
    silence_grpc()
    from roofline.joining import (
        CannotJoin,
        agent_file,
        check_can_save,
        enrol,
        load_servers,
        parse_token,
        save_servers,
    )

    from ..errors import ConfigError, Unreachable
    from ..uplink.grpc_setup import grpc

    config = load_config(context, server=server)
    state = config.state_directory()
    text = sys.stdin.readline() if token == "-" else token
    try:
        parsed = parse_token(text)
    except CannotJoin as error:
        raise ConfigError(str(error)) from None
    file = agent_file(state)
    try:
        check_can_save(file)
        access, _ = enrol(grpc, server, parsed, socket.gethostname(), ["agent"])
        save_servers(file, load_servers(file).joined(server, access))
    except CannotJoin as error:
        raise Unreachable(str(error)) from None
    print(f"joined {server}; start `roofline-agent`, or start it again{_as_root()}")


def _as_root() -> str:
    return "" if os.getuid() == 0 else " (as this user: another one has to join by itself)"
