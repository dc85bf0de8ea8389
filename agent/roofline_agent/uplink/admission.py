"""Whether a server lets this node in, without sending it anything."""

from __future__ import annotations

from roofline.joining import OUT, Access, open_channel, speaks_tls

from .exporter import CHANNEL_OPTIONS, JOIN, METHOD
from .grpc_setup import grpc

__all__ = ["JOIN", "refusal"]

ANSWER_S = 5.0
_REFUSED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


def refusal(server: str, access: Access | None) -> str:
    """Why an agent with this access cannot stream to the server at HOST:PORT, which listens; "": it can.

    A stream is opened and ended without a greeting, which the server answers with an error of its own kind
    if the caller has passed its door.
    """
    if access is None:
        return "it accepts only agents that have joined it" if speaks_tls(server) else ""
    with open_channel(grpc, server, access, CHANNEL_OPTIONS) as channel:
        call = channel.stream_stream(METHOD)(iter(()), timeout=ANSWER_S)
        try:
            list(call)
        except grpc.RpcError as error:
            if error.code() in _REFUSED:
                return str(error.details())
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                return OUT
    return ""
