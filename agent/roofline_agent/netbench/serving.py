"""The receiving end: serves one benchmark and ends with it, or when its time is over."""

from __future__ import annotations

import queue
import socket
from collections.abc import Callable

import psutil

from . import rpc
from .errors import NetBenchError
from .handshake import key_of_calls
from .messages import BenchReport, ServeOrder, Serving
from .receiver import TcpReceiver

COME_S = 10.0  # the sending end has so long to come, then its ticket is worthless
MOST_S = 600.0
MOST_ADDRESSES = 16
# Never contacted: the kernel only shows which address it would send from (RFC 5737, RFC 3849).
ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def serve(order: ServeOrder, report: Callable[[BenchReport], None]) -> None:
    """Until the sending end has gone. Raises NetBenchError where none came, or the time is over."""
    ended: queue.SimpleQueue[bool] = queue.SimpleQueue()
    try:
        listener = TcpReceiver(order.ticket, lambda: ended.put(True))
        server, grpc_port = rpc.serve(key_of_calls(order.ticket))
    except OSError as error:
        raise NetBenchError(f"this node cannot listen: {error.strerror or error}") from None
    try:
        report(BenchReport(serving=Serving(addresses(), listener.port, grpc_port)))
        if not listener.controlled.wait(min(COME_S, order.seconds)):
            raise NetBenchError(f"nobody came to measure within {COME_S:g} s")
        try:
            ended.get(timeout=min(MOST_S, order.seconds))
        except queue.Empty:
            raise NetBenchError(f"the measurement was not over after {order.seconds:g} s") from None
    finally:
        listener.close()
        server.stop(None)
    report(BenchReport(done=True))


def addresses() -> tuple[str, ...]:
    """Addresses of this node, those it would send from first, loopback last."""
    found = [address for family, target in ELSEWHERE if (address := _sends_from(family, target))]
    for name, entries in sorted(psutil.net_if_addrs().items()):
        for entry in entries:
            # An address with an interface's name in it means nothing on another node.
            is_global_v6 = entry.family == socket.AF_INET6 and "%" not in entry.address
            if name != "lo" and (entry.family == socket.AF_INET or is_global_v6):
                found.append(entry.address)
    return (*list(dict.fromkeys(found))[: MOST_ADDRESSES - 1], "127.0.0.1")


def _sends_from(family: socket.AddressFamily, target: str) -> str:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""
