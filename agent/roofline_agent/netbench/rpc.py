"""The gRPC end points of the benchmark, and what both ends have to know of them.

    Echo    the payload there and the same payload back    latency
    Push    the payload there, an empty answer             bandwidth; a worker's gradients
    Pull    the sizes there, the payload back              a parameter server's variables

each in two modes, as in the paper: *serialized*, where protobuf packs the buffers into a message and unpacks
them, and not, where the bytes of all buffers pass as they are. gRPC's Python takes a message in one piece, so
there the buffers are one (the paper hands the ten to gRPC's core).
"""

from __future__ import annotations

import functools
import hmac
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from roofline.v1 import ingest_pb2 as pb

from .payloads import BUFFERS

SERVICE = "roofline.v1.NetBench"
KEY = "roofline-key"  # metadata of every call
THREADS = 16
MAX_BUFFERS, MAX_BYTES = 4 * BUFFERS, 64 << 20  # of a payload
OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", MAX_BYTES),
    ("grpc.enable_http_proxy", 0),
    ("grpc.so_reuseport", 0),
    # Each channel has a connection of its own, as each worker of a training has.
    ("grpc.use_local_subchannel_pool", 1),
)


class Mode:
    """How payloads go over the wire."""

    def __init__(self, serialized: bool) -> None:
        self.serialized = serialized
        self.suffix = "" if serialized else "Raw"
        self.pack: Any = pb.NetBuffers.SerializeToString if serialized else None
        self.unpack: Any = pb.NetBuffers.FromString if serialized else None

    def payload(self, sizes: Sequence[int]) -> Any:
        """A message with buffers of these sizes; random, so that nothing on the way can shrink it."""
        buffers = [os.urandom(size) for size in sizes]
        return pb.NetBuffers(buffers=buffers) if self.serialized else b"".join(buffers)

    def method(self, channel: grpc.Channel, name: str) -> Any:
        """A method of the service; sizes and empty answers are bytes in both modes."""
        return channel.unary_unary(
            f"/{SERVICE}/{name}{self.suffix}",
            request_serializer=None if name == "Pull" else self.pack,
            response_deserializer=None if name == "Push" else self.unpack,
        )


MODES = (Mode(False), Mode(True))


def serve(key: str) -> tuple[grpc.Server, int]:
    """A running server at a port of the system's choice, on all addresses. Raises OSError."""
    server = grpc.server(ThreadPoolExecutor(THREADS), options=OPTIONS)
    server.add_generic_rpc_handlers((_Keyed(key),))
    for address in ("[::]:0", "0.0.0.0:0"):
        try:
            port = server.add_insecure_port(address)
        except RuntimeError:
            continue
        server.start()
        return server, port
    raise OSError("gRPC finds no port to listen at")


class _Keyed:
    """The methods of a service, for who shows the key: others are refused before their message is taken."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._methods = {f"/{SERVICE}/{name}": m for mode in MODES for name, m in _methods(mode).items()}

    def service(self, details: Any) -> Any:
        """As gRPC asks a GenericRpcHandler: the method, None where there is none."""
        shown = next((value for name, value in details.invocation_metadata if name == KEY), "")
        if not hmac.compare_digest(str(shown).encode(), self._key):
            # Of a stream no message is read unless somebody asks for it.
            return grpc.stream_stream_rpc_method_handler(_refuse)
        return self._methods.get(details.method)


def _refuse(_: Any, context: Any) -> Any:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "this port serves one network benchmark")


def _methods(mode: Mode) -> dict[str, Any]:
    held = functools.lru_cache(4)(mode.payload)  # what was asked for lately
    methods = {
        "Echo": _method(lambda request, _: request, mode.unpack, mode.pack),
        "Push": _method(lambda *_: b"", mode.unpack, None),
        "Pull": _method(lambda request, context: held(_sizes(request, context)), None, mode.pack),
    }
    return {f"{name}{mode.suffix}": method for name, method in methods.items()}


def _method(work: Callable[[Any, Any], Any], unpack: Any, pack: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(work, request_deserializer=unpack, response_serializer=pack)


def sizes_as_bytes(sizes: Sequence[int]) -> bytes:
    return b",".join(b"%d" % size for size in sizes)


def _sizes(request: bytes, context: Any) -> tuple[int, ...]:
    parts = request.split(b",")
    if len(parts) <= MAX_BUFFERS and all(part.isdigit() and len(part) < 12 for part in parts):
        sizes = tuple(map(int, parts))
        if sum(sizes) <= MAX_BYTES:
            return sizes
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no sizes of a payload")
    raise AssertionError("abort raises")
