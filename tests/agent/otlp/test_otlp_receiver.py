"""The receiver of spans, over real HTTP, with OpenTelemetry's own exporter."""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from roofline_agent import config
from roofline_agent.errors import ConfigError
from roofline_agent.marks.listener import PeerProcess
from roofline_agent.otlp import receiver as receivers
from roofline_agent.otlp.receiver import OtlpReceiver, SentSpans
from roofline_agent.otlp.steps import OtlpSpan, can_be


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    found = OtlpReceiver(("127.0.0.1", 0))
    yield found
    found.close()


def taken(receiver: OtlpReceiver) -> list[SentSpans]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if found := receiver.take():
            return found
        time.sleep(0.01)
    raise AssertionError("no spans came")


def post(
    receiver: OtlpReceiver, body: bytes = b"", path: str = "/v1/traces", **headers: str
) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*receiver.address, timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path, body, {"Content-Type": "application/x-protobuf", **named})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_spans_of_the_sdk_come_with_who_sent_them_and_on_the_nodes_clock(
    receiver: OtlpReceiver, compression: Compression
) -> None:
    host, port = receiver.address
    exporter = OTLPSpanExporter(f"http://{host}:{port}/v1/traces", compression=compression)
    provider = TracerProvider(resource=Resource({"nv.dl.rank": 1, "nv.dl.world_size": 2}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    before = time.monotonic_ns()
    with provider.get_tracer("t").start_as_current_span("step", attributes={"nv.dl.training.step": 5}):
        pass
    (found,) = taken(receiver)
    provider.shutdown()
    assert found.peer.pid in (os.getpid(), os.getppid()) and found.peer.uid == os.getuid()
    assert (found.sender.rank, found.sender.world) == (1, 2)
    (span,) = found.spans
    assert (span.name, span.step, span.parent) == ("step", 5, b"")
    assert before - 5_000_000 <= span.begin_ns <= span.end_ns <= time.monotonic_ns() + 5_000_000


def test_what_is_no_trace_is_refused_and_says_why(receiver: OtlpReceiver) -> None:
    assert post(receiver, b"\xff\xff")[0] == 400
    assert post(receiver, path="/v1/metrics") == (404, "only spans are accepted, at /v1/traces")
    assert post(receiver, Content_Type="application/json")[0] == 415
    assert post(receiver, b"no gzip", Content_Encoding="gzip")[0] == 400
    assert post(receiver, Content_Length=str(receivers.MOST_BODY + 1))[0] == 413
    assert post(receiver) == (200, ""), "an empty request is one"


def test_zipped_body_that_grows_too_large_is_refused(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gzip

    monkeypatch.setattr(receivers, "MOST_BODY", 1000)
    assert post(receiver, gzip.compress(bytes(2000)), Content_Encoding="gzip")[0] == 413


def test_sender_that_cannot_be_seen_is_refused(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers, "process_behind", lambda *ends: None)
    assert post(receiver)[0] == 403
    assert receiver.take() == []


def test_more_than_is_taken_is_refused_until_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

    monkeypatch.setattr(receivers, "MOST_WAITING", 2)
    receiver = OtlpReceiver(("127.0.0.1", 0))
    spans = ResourceSpans(scope_spans=[ScopeSpans(spans=[Span(name="x")])])
    body = ExportTraceServiceRequest(resource_spans=[spans]).SerializeToString()
    assert [post(receiver, body)[0] for _ in range(3)] == [200, 200, 503]
    assert len(receiver.take()) == 2 and post(receiver, body)[0] == 200
    receiver.close()


def test_connections_are_bounded(receiver: OtlpReceiver) -> None:
    receiver._connections = threading.BoundedSemaphore(1)
    idle = http.client.HTTPConnection(*receiver.address, timeout=20)
    idle.request("POST", "/v1/traces", b"", {"Content-Type": "application/x-protobuf"})
    assert idle.getresponse().read() == b""
    with pytest.raises((http.client.HTTPException, OSError)):
        post(receiver)
    idle.close()


@pytest.mark.parametrize("place", ["0.0.0.0:4318", "4318", "node1:4318", "10.0.0.1:4318"])
def test_other_places_than_loopback_are_refused(place: str) -> None:
    with pytest.raises(ConfigError, match="otlp"):
        config.load({"otlp": place}, {})


def test_place_is_off_by_default_and_localhost_is_one() -> None:
    found: Any = config.load({}, {"HOME": "/nowhere"})
    assert found.otlp_address is None
    assert config.load({"otlp": "localhost:4318"}, {}).otlp_address == ("127.0.0.1", 4318)


@pytest.mark.parametrize(
    ("step", "begin", "end"),
    [(-1, 0, 9), (1 << 62, 0, 9), (1, -(1 << 62), 9), (1, 1 << 62, 1 << 62), (1, 0, (1 << 64) - 1)],
)
def test_span_with_numbers_that_cannot_be_costs_itself(step: int, begin: int, end: int) -> None:
    """The agent packs what is left, which would raise."""
    good = OtlpSpan("step", 1, 9, b"1", b"", 1)
    assert can_be(good)
    assert not can_be(good._replace(step=step, begin_ns=begin, end_ns=end))


def test_spans_that_cannot_be_are_counted_and_others_taken(receiver: OtlpReceiver) -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in (-1, 5):
        now = time.time_ns()
        one = spans.add(name="step", span_id=b"12345678", start_time_unix_nano=now, end_time_unix_nano=now)
        one.attributes.add(key="nv.dl.training.step").value.int_value = number
    receiver.receive(PeerProcess(os.getpid(), os.getuid()), request.SerializeToString())
    (found,) = receiver.take()
    assert ([one.step for one in found.spans], found.impossible) == ([5], 1)
