"""Whether a server lets this node in, without sending it anything."""

from __future__ import annotations

from typing import NamedTuple

from roofline.joining import OUT, Access, clock_behind, open_channel, speaks_tls

from .exporter import CHANNEL_OPTIONS, JOIN, METHOD
from .grpc_setup import grpc

ANSWER_S = 5.0
SILENT = (
    "look at the server (`roofline-server status` on its machine: it may hang or be busy), and whether a "
    "firewall, or an MTU that is too large, drops packets between"
)
_REFUSED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


class Refusal(NamedTuple):
    """Why a server does not let a node in, and what to do."""

    why: str
    advice: str


def refusal(server: str, access: Access | None) -> Refusal | None:
    """Why an agent with this access cannot stream to the server at HOST:PORT, which listens; None: it can.

    A stream is opened and ended without a greeting, which the server answers with an error of its own kind
    if the caller has passed its door.
    """
    if access is None:
        if speaks_tls(server):
            return Refusal("does not accept this node: it accepts only agents that have joined it", JOIN)
        return None
    with open_channel(grpc, server, access, CHANNEL_OPTIONS) as channel:
        call = channel.stream_stream(METHOD)(iter(()), timeout=ANSWER_S)
        try:
            list(call)
        except grpc.RpcError as error:
            return _refusal(server, access, error)
    return None


def _refusal(server: str, access: Access, error: grpc.RpcError) -> Refusal | None:
    if error.code() in _REFUSED:
        return Refusal(f"does not accept this node: {error.details()}", JOIN)
    unavailable = error.code() == grpc.StatusCode.UNAVAILABLE
    if unavailable and speaks_tls(server):
        if why := clock_behind(server, access):
            return Refusal(f"cannot be trusted: {why}", "set this node's clock")
        return Refusal(f"does not accept this node: {OUT}", JOIN)
    if unavailable or error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Refusal(f"listens, but did not answer within {ANSWER_S:g} s", SILENT)
    return None
