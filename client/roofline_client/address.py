"""Where a server listens, and which were joined."""

from __future__ import annotations

import os

from roofline import joining

from .errors import UsageError

DEFAULT_SERVER = "127.0.0.1:7642"


def check_address(server: str) -> None:
    """Raises UsageError for an address that cannot be one; "" is the default."""
    if not server:
        return
    host, colon, port = server.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"server address {server!r} must be HOST:PORT, as {DEFAULT_SERVER}")


def known_servers() -> joining.Servers:
    """Those that this user has joined. Raises UsageError for a file that is broken."""
    try:
        return joining.load(joining.client_file(os.environ))
    except joining.CannotJoin as error:
        raise UsageError(str(error)) from None
