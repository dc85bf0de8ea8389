"""Where agents are: addresses that the server sees their streams come from, not those that they name."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from urllib.parse import unquote

ANY_PORT = 9  # nothing is sent there


def address_of(peer: str) -> str:
    """The address in gRPC's name of a peer, as "ipv4:10.0.0.1:4711" or "ipv6:%5B::1%5D:4711"; "" where it has
    none, as a Unix socket."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    try:
        found = ipaddress.ip_address(rest.rpartition(":")[0].strip("[]"))
    except ValueError:
        return ""
    return str(getattr(found, "ipv4_mapped", None) or found)


def seen_from(address: str, other: str) -> str:
    """Where the node at `address` is for the one at `other`: an agent next to the server comes from loopback,
    and for other nodes this machine has the address that it would answer them from."""
    if not (is_loopback(address) and other and not is_loopback(other)):
        return address
    family = socket.AF_INET6 if ":" in other else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((other, ANY_PORT))
        return str(probe.getsockname()[0])
    return address


def is_loopback(address: str) -> bool:
    return bool(address) and ipaddress.ip_address(address).is_loopback
