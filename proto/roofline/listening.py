"""Sockets that listen at all addresses of this machine (of IPv4 and of IPv6, as gRPC's do), and files with
which they speak TLS."""

from __future__ import annotations

import errno
import socket
import ssl
from pathlib import Path

ALL = ("0.0.0.0", "::")  # either stands for both families
BACKLOG = 128


def is_all(host: str) -> bool:
    return host.strip("[]") in ALL


def at_all_addresses(port: int, backlog: int = BACKLOG) -> socket.socket:
    """Raises OSError. Where the node has no IPv6, of IPv4 alone."""
    try:
        return _listening(socket.AF_INET6, "::", port, backlog)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise
        return _listening(socket.AF_INET, "0.0.0.0", port, backlog)


def _listening(family: socket.AddressFamily, host: str, port: int, backlog: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((host, port))
        made.listen(backlog)
    except BaseException:
        made.close()
        raise
    return made


def why_no_identity(certificate: Path, key: Path) -> str:
    """Why nobody can speak TLS with these files; "" if one can."""
    for file in (certificate, key):
        try:
            file.read_bytes()
        except OSError as error:
            return f"cannot read {file}: {error.strerror}"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        why = f" ({error.reason})" if error.reason else ""
        return f"{certificate} and {key} are no certificate in PEM and its key{why}"
    return ""
