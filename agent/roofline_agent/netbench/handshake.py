"""What the two ends send over TCP: the receiving one a line of JSON with a number that is used once; the
other a line with what the connection is for, and the proof that it has the ticket, which is never sent; then:

    control   lines of JSON, each answered by one: "count" (bytes received, and when), "bye"
    echo      `size` bytes there, the same bytes back, again and again
    sink      bytes, until the sender has no more

The receiving end serves as long as the control connection is open: it ends when the sending end does, for
whatever reason.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import time
from collections.abc import Mapping
from typing import Any

MAX_LINE = 4096  # bytes
CHUNK = 256 << 10  # bytes read or written at once
HELLO_S = 5.0  # for the line with the proof
# The other end's machine may vanish without a word: noticed after about 10 s.
KEEPALIVE = ((socket.TCP_KEEPIDLE, 4), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3))


class Closed(Exception):
    """The other end closed the connection, or sent what no end of a benchmark sends."""


def prepare(connection: socket.socket) -> None:
    """A message leaves at once, and a peer that vanished is noticed."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def connect(address: str, port: int, ticket: str, timeout_s: float, **what: Any) -> socket.socket:
    """A connection that the other end has accepted. Raises OSError or Closed."""
    connection = socket.create_connection((address, port), timeout_s)
    try:
        prepare(connection)
        once = str(receive(connection, timeout_s).get("once", ""))
        send(connection, {"proof": proof(ticket, once, what), **what})
        if not receive(connection, timeout_s).get("ok"):
            raise Closed("it has another ticket")
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection


def proof(ticket: str, once: str, what: Mapping[str, Any]) -> str:
    """Proof that somebody with this ticket wants this of the end that has sent `once`."""
    wanted = json.dumps([once, *sorted(what.items())])
    return hmac.new(ticket.encode(), wanted.encode(), hashlib.sha256).hexdigest()


def key_of_calls(ticket: str) -> str:
    """What calls of gRPC show: it opens those alone."""
    return proof(ticket, "", {"for": "calls"})


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket, within_s: float | None = None) -> dict[str, Any]:
    """The next line. Raises Closed for an end, for a line that is too long, and for one that is not JSON.

    within_s: for all of it, else TimeoutError; without, the connection's own timeout holds for each byte.
    """
    line = bytearray()
    deadline = None if within_s is None else time.monotonic() + within_s
    while not line.endswith(b"\n"):
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            connection.settimeout(left)
        # One by one: what follows the line belongs to somebody else.
        byte = connection.recv(1)
        if not byte or len(line) >= MAX_LINE:
            raise Closed("it closed the connection" if not byte else "its line does not end")
        line += byte
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise Closed("it speaks another language") from None
    if not isinstance(message, dict):
        raise Closed("it speaks another language")
    return message


def read_exactly(connection: socket.socket, into: memoryview) -> bool:
    """Fill the buffer; False where the connection ends before."""
    at = 0
    while at < len(into):
        got = connection.recv_into(into[at:])
        if not got:
            return False
        at += got
    return True
