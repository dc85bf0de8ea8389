"""Where a server listens, and which were joined."""

from __future__ import annotations

import os

from roofline.joining import CannotJoin, Servers, client_file, load_servers

from .errors import UsageError

DEFAULT_SERVER = "127.0.0.1:7642"


def check_address(server: str) -> None:
    """Raises UsageError for an address that cannot be one; "" is the default."""
    if not server:
        return
    if "//" in server:
        right = server.rpartition("//")[2].strip("/")
        raise UsageError(f"server address {server!r}: without the scheme, as in {right}")
    host, colon, port = server.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"server address {server!r} must be HOST:PORT, e.g. {DEFAULT_SERVER}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        right = f"[{host.strip('[]')}]:{port}"
        raise UsageError(f"server address {server!r}: IPv6 addresses have brackets, as in {right}")


def known_servers() -> Servers:
    """The servers that this user has joined. Raises UsageError for a file that is broken."""
    try:
        return load_servers(client_file(os.environ))
    except CannotJoin as error:
        raise UsageError(str(error)) from None
