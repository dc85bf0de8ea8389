"""Where a server listens."""

from __future__ import annotations

from .errors import UsageError

DEFAULT_SERVER = "127.0.0.1:7642"


def check_address(server: str) -> None:
    """Raises UsageError for an address that cannot be one."""
    host, colon, port = server.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"server address {server!r} must be HOST:PORT, as {DEFAULT_SERVER}")
