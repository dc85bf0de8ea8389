"""Takes spans by OTLP over HTTP (protobuf) on loopback, and keeps them until the daemon's loop takes them.

The kernel says whose spans they are: those of the process at the other end of the connection. So no token is
needed, and connections from outside this node's loopback are not accepted. A training is never kept waiting:
a process that sends more than is taken gets 503, and its exporter tries again or drops.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from ..errors import ConfigError, Unavailable
from ..marks.listener import PeerProcess
from .attributes import STEP
from .sender import process_behind
from .steps import OtlpSpan, Sender, can_be

log = logging.getLogger(__name__)

PATH = "/v1/traces"
PROTOBUF = "application/x-protobuf"
MOST_BODY = 4 << 20  # bytes, unpacked: an exporter sends 512 spans at once
MOST_WAITING = 256  # requests
MOST_CONNECTIONS = 512
PATIENCE_S = 120.0  # with a connection on which nothing comes
STALLED_S = 10.0


class SentSpans(NamedTuple):
    """What one request brought."""

    peer: PeerProcess
    sender: Sender
    spans: list[OtlpSpan]
    impossible: int  # spans other than these, with numbers that cannot be


class Refused(Exception):
    """An answer of HTTP that is no success."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class OtlpReceiver:
    """Listens from the beginning on."""

    def __init__(self, address: tuple[str, int]) -> None:
        """Raises ConfigError where the extra is not installed, Unavailable where the port is taken."""
        try:
            from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
        except ImportError:
            raise ConfigError(
                "otlp needs opentelemetry-proto, which is not installed: "
                "pip install 'roofline-profiler[otlp-agent]'"
            ) from None
        self._waiting: queue.Queue[SentSpans] = queue.Queue(MOST_WAITING)
        self._parse: Callable[[bytes], Any] = trace_service_pb2.ExportTraceServiceRequest.FromString
        self._connections = threading.BoundedSemaphore(MOST_CONNECTIONS)
        try:
            self._server = _Server(address, self)
        except OSError as error:
            host, port = address
            raise Unavailable(f"cannot take spans at {host}:{port}: {error.strerror or error}") from None
        self.address = self._server.server_address[:2]
        threading.Thread(target=self._server.serve_forever, name="otlp", daemon=True).start()

    def take(self) -> list[SentSpans]:
        """What has come since the last call."""
        found: list[SentSpans] = []
        with suppress(queue.Empty):
            while True:
                found.append(self._waiting.get_nowait())
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def receive(self, peer: PeerProcess, body: bytes) -> None:
        """In a connection's thread. Raises Refused."""
        try:
            message = self._parse(body)
        except Exception:
            raise Refused(400, "no ExportTraceServiceRequest") from None
        offset_ns = time.time_ns() - time.monotonic_ns()
        try:
            for resource in message.resource_spans:
                sender = Sender.of(_attributes(resource.resource.attributes))
                spans = [_span(one, offset_ns) for scope in resource.scope_spans for one in scope.spans]
                if sender.is_rank and spans:
                    possible = [one for one in spans if can_be(one)]
                    self._waiting.put_nowait(SentSpans(peer, sender, possible, len(spans) - len(possible)))
        except queue.Full:
            raise Refused(503, "too many spans wait") from None


def _span(one: Any, offset_ns: int) -> OtlpSpan:
    step = next(
        (a.value.int_value for a in one.attributes if a.key == STEP and a.value.HasField("int_value")), None
    )
    begin, end = one.start_time_unix_nano - offset_ns, one.end_time_unix_nano - offset_ns
    return OtlpSpan(one.name, begin, max(begin, end), one.span_id, one.parent_span_id, step)


def _attributes(pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in pairs:
        kind = one.value.WhichOneof("value")
        if kind in ("string_value", "int_value"):
            found[one.key] = getattr(one.value, kind)
    return found


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], receiver: OtlpReceiver) -> None:
        self.receiver = receiver
        super().__init__(address, _SpanConnection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a connection for spans broke", exc_info=True)


class _SpanConnection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # an exporter keeps its connection
    server: _Server
    timeout = PATIENCE_S
    _peer: PeerProcess | None = None

    def handle(self) -> None:
        receiver = self.server.receiver
        if receiver._connections.acquire(blocking=False):
            try:
                super().handle()
            finally:
                receiver._connections.release()

    def do_POST(self) -> None:
        try:
            self.server.receiver.receive(self._who(), self._body())
            self._answer(200, b"")
        except Refused as refused:
            self.close_connection = True
            self._answer(refused.status, str(refused).encode())

    def _who(self) -> PeerProcess:
        if self._peer is None:
            try:
                self._peer = process_behind(self.client_address, self.connection.getsockname())
            except OSError:
                log.debug("a sender of spans cannot be looked up", exc_info=True)
        if self._peer is None:
            raise Refused(403, "roofline-agent sees no process of this node behind this connection")
        return self._peer

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if self.path != PATH:
            raise Refused(404, f"only spans are accepted, at {PATH}")
        if self.headers.get_content_type() != PROTOBUF:
            raise Refused(415, f"{PROTOBUF} alone is taken: OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
        if not (length.isascii() and length.isdecimal()) or int(length) > MOST_BODY:
            raise Refused(413, f"more than {MOST_BODY} bytes, or without a length")
        self.connection.settimeout(STALLED_S)
        body = self.rfile.read(int(length))
        self.connection.settimeout(PATIENCE_S)
        return _unpacked(body) if self.headers.get("Content-Encoding", "") == "gzip" else body

    def _answer(self, status: int, words: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", PROTOBUF if status == 200 else "text/plain")
        self.send_header("Content-Length", str(len(words)))
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(words)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def _unpacked(body: bytes) -> bytes:
    """Raises Refused for what is no gzip or gets too large."""
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        found = unpacker.decompress(body, MOST_BODY)
    except zlib.error:
        raise Refused(400, "no gzip") from None
    if unpacker.unconsumed_tail:
        raise Refused(413, f"more than {MOST_BODY} bytes")
    return found
