"""A job sent by OpenTelemetry's own exporters, as doubles of a collector receive it."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

import grpc
import pytest
from roofline_client.errors import ClientError
from roofline_client.trackers.published import METRICS, OF_PEAKS, Published

from .chunks import BEGIN, MS, chunk, introductions, slices

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otlp is not installed")
pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc", reason="the extra otlp is not installed")
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_service
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_service
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from roofline_client.trackers import otlp

FOUND = Published(
    "42",
    BEGIN,
    BEGIN + 20 * MS,
    False,
    {"step_median_seconds": 0.01, "ranks/worker": 2, "share/ps/wait": 0.5, "share/worker/transfer": 0.25},
    {"state": "finished"},
    "ok",
)
KINDS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


class Collector(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.got: dict[str, list[Any]] = {path: [] for path in KINDS}
        self.status = 200
        self.url = f"http://127.0.0.1:{self.server_port}"


class Request(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        self.server.got[self.path].append(KINDS[self.path].FromString(data))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class GrpcService:
    """One of a collector's two; status: with which it refuses, None: it does not."""

    def __init__(self, answer: Any) -> None:
        self.got: list[Any] = []
        self.status: grpc.StatusCode | None = None
        self._answer = answer

    def Export(self, request: Any, context: Any) -> Any:
        self.got.append(request)
        if self.status is not None:
            context.abort(self.status, "refused")
        return self._answer()


class GrpcCollector(NamedTuple):
    url: str
    traces: GrpcService
    metrics: GrpcService


@pytest.fixture
def over_grpc() -> Iterator[GrpcCollector]:
    server = grpc.server(ThreadPoolExecutor(2))
    port = server.add_insecure_port("127.0.0.1:0")
    made = GrpcCollector(
        f"grpc://127.0.0.1:{port}",
        GrpcService(ExportTraceServiceResponse),
        GrpcService(ExportMetricsServiceResponse),
    )
    trace_service.add_TraceServiceServicer_to_server(made.traces, server)
    metrics_service.add_MetricsServiceServicer_to_server(made.metrics, server)
    server.start()
    yield made
    server.stop(None).wait()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def timeline() -> list[Any]:
    steps = slices("steps", [(0, 10 * MS), (10 * MS, 20 * MS)], step=[7, 8])
    return [
        chunk("timeline", introductions()),
        chunk("timeline", steps),
        chunk("timeline", slices("phases", [(11 * MS, 12 * MS)], name="input")),
        chunk("timeline", slices("asked", [(1 * MS, 2 * MS)], name="all_reduce")),
    ]


def attributes(of: Any) -> dict[str, Any]:
    return {a.key: a.value.string_value or a.value.int_value for a in of.attributes}


def test_job_is_a_trace_of_steps_and_phases(collector: Collector) -> None:
    sent = otlp.write(FOUND, collector.url + "/", timeline())
    assert (sent.spans, sent.metrics) == (4, 4), "the job, two steps and a phase"
    (request,) = collector.got["/v1/traces"]
    resources = {attributes(one.resource).get("service.instance.id"): one for one in request.resource_spans}
    about = attributes(resources["worker:0"].resource)
    assert (about["service.name"], about["nv.dl.role"], about["nv.dl.rank"]) == ("roofline", "worker", 0)
    assert about["nv.dl.world_size"] == 2
    assert (about["host.name"], about["roofline.job"]) == ("node1", "42")
    spans = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
    assert {span.trace_id.hex() for span in spans} == {sent.trace_id}
    job, first, second, phase = spans
    assert (job.start_time_unix_nano, job.end_time_unix_nano) == (BEGIN, BEGIN + 20 * MS)
    assert {first.parent_span_id, second.parent_span_id} == {job.span_id} and not job.parent_span_id
    assert [(one.name, attributes(one)["nv.dl.training.step"]) for one in (first, second)] == [
        ("step", 7),
        ("step", 8),
    ]
    assert (phase.name, phase.parent_span_id) == ("input", second.span_id)
    assert (phase.start_time_unix_nano, phase.end_time_unix_nano) == (BEGIN + 11 * MS, BEGIN + 12 * MS)


def test_span_of_a_failed_job_is_an_error(collector: Collector) -> None:
    state = "failed: worker:1 exited with 1 after step 3"
    otlp.write(FOUND._replace(tags={"state": state}), collector.url, timeline())
    otlp.write(FOUND, collector.url, timeline())
    failed, finished = (
        [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
        for request in collector.got["/v1/traces"]
    )
    error = Status.StatusCode.STATUS_CODE_ERROR
    assert (failed[0].status.code, failed[0].status.message) == (error, state)
    assert not [span for span in (*failed[1:], *finished) if span.status.code == error]


def test_numbers_of_the_job_are_gauges_at_its_end(collector: Collector) -> None:
    otlp.write(FOUND, collector.url, timeline())
    (request,) = collector.got["/v1/metrics"]
    median, ranks, shares = request.resource_metrics[0].scope_metrics[0].metrics
    (point,) = median.gauge.data_points
    assert (median.name, median.unit, point.as_double) == ("roofline.step_median_seconds", "s", 0.01)
    assert point.time_unix_nano == BEGIN + 20 * MS
    assert (ranks.name, ranks.unit) == ("roofline.ranks", "{rank}")
    found = [(attributes(one), one.as_double) for one in shares.gauge.data_points]
    assert (shares.name, found) == (
        "roofline.share",
        [
            ({"nv.dl.role": "ps", "roofline.part": "wait"}, 0.5),
            ({"nv.dl.role": "worker", "roofline.part": "transfer"}, 0.25),
        ],
    )


def test_each_number_that_trackers_get_has_a_unit() -> None:
    named = {*METRICS, *OF_PEAKS, "steps_per_second", "share", "ranks", "bottleneck_share"}
    assert set(otlp.NUMBERS) == named | {"flops_per_second", "roof_share", "energy_per_step"}


def test_job_belongs_to_the_trace_that_its_training_was_started_in(collector: Collector) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    tagged = FOUND._replace(tags={**FOUND.tags, "otel.traceparent": parent})
    assert otlp.write(tagged, collector.url, timeline()).trace_id == "0af7651916cd43dd8448eb211c80319c"
    later = tagged._replace(job="43")
    otlp.write(later, collector.url, timeline())
    roots, ids = [], []
    for request in collector.got["/v1/traces"]:
        spans = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
        assert {span.trace_id.hex() for span in spans} == {"0af7651916cd43dd8448eb211c80319c"}
        roots.append(spans[0])
        ids += [span.span_id for span in spans]
    assert [(root.name, root.parent_span_id.hex()) for root in roots] == [
        ("job 42", "b7ad6b7169203331"),
        ("job 43", "b7ad6b7169203331"),
    ]
    assert len({*ids}) == len(ids), "spans of two jobs of one trace are not mixed"


def test_what_is_no_parent_is_none(collector: Collector) -> None:
    wrong = FOUND._replace(tags={"otel.traceparent": "00-" + "0" * 32 + "-b7ad6b7169203331-01"})
    assert otlp.write(wrong, collector.url, timeline()) == otlp.write(FOUND, collector.url, timeline())


def test_job_that_is_sent_again_is_the_same_trace(collector: Collector) -> None:
    assert otlp.write(FOUND, collector.url, timeline()) == otlp.write(FOUND, collector.url, timeline())
    first, again = collector.got["/v1/traces"]
    assert first == again


def test_what_the_collector_refuses_is_said(collector: Collector) -> None:
    collector.status = 401
    with pytest.raises(ClientError, match="has not taken all of job 42"):
        otlp.write(FOUND, collector.url, timeline())


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_nobody_who_listens_is_said_at_once(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "_send", None)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ClientError, match=f"nobody listens at {scheme}://127.0.0.1:{port}"):
        otlp.write(FOUND, f"{scheme}://127.0.0.1:{port}", [])


def test_over_grpc_goes_what_goes_over_http(collector: Collector, over_grpc: GrpcCollector) -> None:
    assert otlp.write(FOUND, over_grpc.url, timeline()) == otlp.write(FOUND, collector.url, timeline())
    assert over_grpc.traces.got == collector.got["/v1/traces"] != []
    assert over_grpc.metrics.got == collector.got["/v1/metrics"] != []


def test_what_the_collector_refuses_over_grpc_is_said(over_grpc: GrpcCollector) -> None:
    over_grpc.metrics.status = grpc.StatusCode.UNAUTHENTICATED
    with pytest.raises(ClientError, match=r"has not taken all of job 42.* over gRPC"):
        otlp.write(FOUND, over_grpc.url, timeline())
    assert len(over_grpc.traces.got) == 1


@pytest.mark.parametrize("wrong", ["head:4318", "http://", "grpc://", "ftp://head"])
def test_what_is_no_address_of_a_collector_is_refused(wrong: str) -> None:
    with pytest.raises(ClientError, match="is not a collector's address"):
        otlp.write(FOUND, wrong, timeline())
