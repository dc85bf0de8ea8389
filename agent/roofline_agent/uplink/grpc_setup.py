"""gRPC with few wake-ups, for an agent that shares its node: import it from here, before anything else does.

Out of the box a message a second costs 80 to 130 wake-ups of its threads: a pool of 4 to 16 of them, as the
machine has CPUs, falls asleep in longer and longer steps after each packet, and for each packet that comes
the bandwidth is probed with another. With the settings here it is 35. They are only requests: a gRPC that
does not know a setting ignores it or prints a line, and what the user has put into GRPC_EXPERIMENTS stays.
"""

from __future__ import annotations

import importlib
import os

__all__ = ["FEWER_WAKEUPS", "grpc", "wait_longer"]

_VARIABLE = "GRPC_EXPERIMENTS"
_NO_POOL = "-event_engine_client"  # sockets are waited for by the thread that reads them, not by the pool
_SIGNALS_EVERY_S = 5.0
# Options of a channel.
FEWER_WAKEUPS = (
    # The receiver's window grows with what the probes find: the server's does by its own, and we get acks.
    ("grpc.http2.bdp_probe", 0),
)

if _VARIABLE in os.environ:
    import grpc
else:
    # gRPC reads it while it is loaded; children, which measure with gRPC, must not inherit it.
    os.environ[_VARIABLE] = _NO_POOL
    try:
        import grpc
    finally:
        del os.environ[_VARIABLE]


def wait_longer() -> None:
    """Have gRPC wake a waiting thread less often.

    Its Python wakes ten times a second to let signals through, a fifth of what an idle agent costs; no signal
    comes to this thread. Where a newer gRPC names it otherwise, nothing changes.
    """
    common = importlib.import_module("grpc._common")
    if hasattr(common, "MAXIMUM_WAIT_TIMEOUT"):
        setattr(common, "MAXIMUM_WAIT_TIMEOUT", _SIGNALS_EVERY_S)  # noqa: B010
