"""The gRPC server: its services, its limits, and the addresses it is bound to."""

from __future__ import annotations

import resource
from typing import Any

import grpc
from roofline.limits import MAX_BATCH_BYTES
from roofline.v1 import access_pb2_grpc, query_pb2_grpc

from .access.guard import Guard
from .errors import Unavailable
from .health.health import Health
from .health.service import HealthService
from .ingest.commands import Agents
from .ingest.committer import Committer
from .ingest.service import MAX_STREAMS, IngestService
from .query import QueryService
from .store.store import Store

STREAM_WINDOW_BYTES = 256 << 10  # on their way to the server and not read yet
MOST_CONNECTIONS, HANDSHAKE_MS, IDLE_MS = 8192, 30_000, 600_000


def grpc_server(
    store: Store,
    committer: Committer,
    guard: Guard | None = None,
    health: Health | None = None,
    agents: Agents | None = None,
) -> grpc.aio.Server:
    """A server with its services that is bound to no address yet. guard: None lets everybody in. agents: gets
    those that are connected."""
    server = grpc.aio.server(
        interceptors=[guard] if guard is not None else None,
        options=(
            ("grpc.max_receive_message_length", MAX_BATCH_BYTES + 65536),
            ("grpc.so_reuseport", 0),
            # Else each message that comes is answered with a ping, to find the largest window: a fixed one of
            # so many bytes a stream bounds memory, too.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", STREAM_WINDOW_BYTES),
            # Agents of a cluster come back at once when the server was away: none is sent away again.
            ("grpc.server.max_pending_requests", 2 * MAX_STREAMS),
            ("grpc.server.max_pending_requests_hard_limit", 2 * MAX_STREAMS),
            # Who reaches the port without a token takes neither all descriptors nor all memory (24 KB each).
            ("grpc.max_allowed_incoming_connections", most_connections()),
            ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
            ("grpc.max_connection_idle_ms", IDLE_MS),  # without a call; clients connect again by themselves
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
        ),
    )
    agents = Agents() if agents is None else agents
    server.add_generic_rpc_handlers((IngestService(store, committer, agents).handler(),))
    limit = guard.limit if guard is not None else lambda: None
    questions = QueryService(store, agents, lambda: committer.granted_share, limit)
    query_pb2_grpc.add_QueryServicer_to_server(questions, server)
    if guard is not None:
        access_pb2_grpc.add_AccessServicer_to_server(guard.enrolment(), server)
    if health is not None:
        HealthService(health).add_to(server)
    return server


def most_connections() -> int:
    """Half of the descriptors at most: the store needs some too."""
    return min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def bind(server: grpc.aio.Server, listen: str, secured: Any = None) -> int:
    try:
        port = server.add_secure_port(listen, secured) if secured else server.add_insecure_port(listen)
    except RuntimeError:
        port = 0
    if port == 0:
        raise Unavailable(
            f"cannot listen at {listen}: the port is in use or the address is not this machine's; "
            "stop what holds it, or choose another --listen"
        )
    return int(port)
