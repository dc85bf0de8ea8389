"""Sends a job to an OpenTelemetry collector by OTLP over HTTP or gRPC: steps and phases as a trace, numbers.

A job is one trace, always of the same id, or belongs to the trace that its training was started in; each rank
is a resource. Attributes have the names of the semantic conventions of OpenTelemetry (service.*, host.name)
and of NVIDIA for training (nv.dl.*).
"""

from __future__ import annotations

import hashlib
import logging
import socket
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies

from roofline.answers.tables import TableChunk

from ..errors import ClientError
from .published import Published

AT_ONCE = 512  # spans in a request
PARENT = (
    "otel.traceparent"  # tag: the span that the training was started in, as W3C's Trace Context writes it
)
ROWS = ("steps", "phases")
# Schemes of a URL, and what the SDK calls them, which tells TLS by them alone.
OVER_GRPC = {"grpc": "http", "grpcs": "https"}
SCOPE = "roofline"
CONNECT_S = 5


# Of each number the unit, in UCUM as OpenTelemetry asks for, and what it is.
NUMBERS = {
    "examples_per_second": ("{example}/s", "Throughput in the steady steps"),
    "steps_per_second": ("{step}/s", "Steady steps of a rank, with the time between them"),
    "step_median_seconds": ("s", "Steady step, median"),
    "step_mean_seconds": ("s", "Steady step, mean"),
    "step_p95_seconds": ("s", "Steady step, 95th percentile"),
    "bottleneck_share": ("1", "Share of the step that the bottleneck costs"),
    "mfu": ("1", "FLOPs of the model over what the peak could have done meanwhile"),
    "hfu": ("1", "FLOPs executed over what the peak could have done meanwhile"),
    "roofline_utilisation": ("1", "FLOPs executed over what the roof would have let the job do meanwhile"),
    "share": ("1", "Share of the mean step, mean over the ranks of a role; transfer: exposed communication"),
    "ranks": ("{rank}", "Ranks of a role"),
    "flops_per_second": ("{FLOP}/s", "FLOP/s of all ranks of a role"),
    "roof_share": ("1", "FLOP/s over what the roof lets the role attain"),
    "energy_per_step": ("J", "Energy of a step of a role"),
}


class Sent(NamedTuple):
    trace_id: str
    spans: int
    metrics: int


def write(found: Published, url: str, chunks: Iterable[TableChunk], timeout_s: float = 20) -> Sent:
    """url: http, https, grpc or grpcs. chunks: of the job's timeline. Headers and certificates are those of
    OTEL_EXPORTER_OTLP_HEADERS and its like, which the SDK reads. Raises ClientError where the collector does
    not answer or refuses."""
    of_spans, of_metrics = _exporters(url, timeout_s)
    _check_listening(url)
    trace = _JobTrace(found)
    spans, count = trace.spans(chunks), 0
    while some := list(islice(spans, AT_ONCE)):
        _send(of_spans, some, found.job, url)
        count += len(some)
    _send(of_metrics, trace.metrics(), found.job, url)
    for exporter in (of_spans, of_metrics):
        exporter.shutdown()
    return Sent(f"{trace.trace_id:032x}", count, len(found.metrics))


def _exporters(url: str, timeout_s: float) -> tuple[Any, Any]:
    """Of spans and of metrics. Raises ClientError for what is no such URL."""
    scheme, _, place = url.rstrip("/").partition("://")
    if scheme in ("http", "https") and place:
        from opentelemetry.exporter.otlp.proto.http import metric_exporter, trace_exporter

        base = f"{scheme}://{place}"
        return (
            trace_exporter.OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=timeout_s),
            metric_exporter.OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=timeout_s),
        )
    if scheme in OVER_GRPC and place:
        from opentelemetry.exporter.otlp.proto.grpc import metric_exporter as metrics
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as traces

        endpoint = f"{OVER_GRPC[scheme]}://{place}"
        return (
            traces.OTLPSpanExporter(endpoint=endpoint, timeout=timeout_s),
            metrics.OTLPMetricExporter(endpoint=endpoint, timeout=timeout_s),
        )
    raise ClientError(f"{url} is not a collector's address: http://head:4318, or grpc://head:4317 over gRPC")


def _send(exporter: Any, batch: Any, job: str, url: str) -> None:
    """Results of all exporters are enumerations with a SUCCESS; their reasons are in their log alone."""
    with _logged() as lines:
        result = exporter.export(batch)
    if result.name != "SUCCESS":
        over = "gRPC" if url.startswith("grpc") else "HTTP"
        why = f" ({lines[-1]})" if lines else ""
        raise ClientError(
            f"the collector at {url} has not taken all of job {job}{why}: does one listen there that takes "
            f"OTLP over {over}? If it does, its log has the reason"
        )


@contextmanager
def _logged() -> Iterator[list[str]]:
    """What exporters log in the block, which they print otherwise: a line for each of many tries."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage().partition("\n")[0])

    log, kept = logging.getLogger("opentelemetry.exporter"), Kept()
    log.addHandler(kept)
    propagated, log.propagate = log.propagate, False
    try:
        yield lines
    finally:
        log.propagate = propagated
        log.removeHandler(kept)


def _check_listening(url: str) -> None:
    """Raises ClientError where nobody listens: exporters would try again for their whole time."""
    place = urlsplit(url)
    if place.hostname is None or getproxies():
        return
    with suppress(OSError, ValueError):  # anything else the exporter meets, too, and says
        try:
            port = place.port or {"http": 80, "https": 443}.get(place.scheme, 4317)
            socket.create_connection((place.hostname, port), CONNECT_S).close()
        except ConnectionRefusedError:
            raise ClientError(
                f"nobody listens at {url}: start the collector, or name the address of its OTLP receiver"
            ) from None


class _JobTrace:
    """Spans of one job. Ids are computed, so that a job that is sent again is the same trace."""

    def __init__(self, found: Published) -> None:
        self._found = found
        self._above = _parent(found.tags.get(PARENT, ""))
        # Of the job alone, so that the spans of two jobs in one trace have ids of their own.
        self._own = _number(f"{found.job} {found.begin_ns}", 16)
        self.trace_id = self._above.trace_id if self._above else self._own
        self._about = {
            "service.name": SCOPE,
            "roofline.job": found.job,
            **{f"roofline.{name}": text for name, text in found.tags.items() if name != "job"},
        }
        self._root = self._context("job")
        self._steps: dict[str, list[tuple[int, int, Any]]] = {}  # rank -> (begin, end, context), in order

    def spans(self, chunks: Iterable[TableChunk]) -> Iterator[Any]:
        """The job, then its ranks, then their steps and phases. Steps of a rank come before its phases."""
        from opentelemetry.sdk.resources import Resource

        found, resource = self._found, Resource(self._about)
        when = (found.begin_ns, found.end_ns)
        state = found.tags.get("state", "")
        error = state if "failed" in state else ""
        yield self._span(f"job {found.job}", self._root, self._above, resource, when, {}, error)
        resources: dict[str, Any] = {}
        for row in (row for chunk in chunks for row in chunk.records()):
            rank = str(row["rank"])
            if row["row"] == "rank":
                about = _rank(rank, str(row["host"] or ""), found.metrics)
                resources[rank] = Resource({**self._about, **about})
            elif row["row"] in ROWS:
                yield self._slice(row, rank, resources[rank])

    def _slice(self, row: dict[str, Any], rank: str, resource: Any) -> Any:
        begin, end = int(row["begin_ns"]), int(row["end_ns"])
        context = self._context(f"{rank} {row['row']} {row['name']} {begin}")
        steps = self._steps.setdefault(rank, [])
        name, parent = str(row["name"]), self._root
        attributes: dict[str, Any] = {"roofline.row": str(row["row"])}
        if row["row"] == "steps":
            steps.append((begin, end, context))
            name, attributes["nv.dl.training.step"] = "step", int(row["step"])
        else:
            parent = self._step_of(steps, begin)
        return self._span(name, context, parent, resource, (begin, end), attributes)

    def _step_of(self, steps: list[tuple[int, int, Any]], moment: int) -> Any:
        """The step that had begun and not ended, else the job."""
        before = bisect_right(steps, moment, key=lambda step: step[0])
        if before and moment < steps[before - 1][1]:
            return steps[before - 1][2]
        return self._root

    def _context(self, name: str) -> Any:
        from opentelemetry.trace import SpanContext, TraceFlags

        span_id = _number(f"{self._own} {name}", 8)
        return SpanContext(
            self.trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
        )

    def _span(
        self,
        name: str,
        context: Any,
        parent: Any,
        resource: Any,
        when: tuple[int, int],
        attributes: Any,
        error: str = "",
    ) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import Status, StatusCode

        return ReadableSpan(
            name=name,
            context=context,
            parent=parent,
            resource=resource,
            attributes=attributes,
            start_time=when[0],
            end_time=max(when),
            instrumentation_scope=InstrumentationScope(SCOPE),
            status=Status(StatusCode.ERROR, error) if error else Status(),
        )

    def metrics(self) -> Any:
        from opentelemetry.sdk.metrics import export
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        found = self._found
        scope = export.ScopeMetrics(InstrumentationScope(SCOPE), list(_metrics(found)), "")
        return export.MetricsData([export.ResourceMetrics(Resource(self._about), [scope], "")])


def _metrics(found: Published) -> Iterator[Any]:
    """Gauges at the job's end: one for "share/ROLE/PART" of all roles and parts, which are attributes."""
    from opentelemetry.sdk.metrics import export

    points: dict[str, list[Any]] = {}
    for whole, value in found.metrics.items():
        name, *rest = whole.split("/", 2)
        of = dict(zip(("nv.dl.role", "roofline.part"), rest, strict=False))
        point = export.NumberDataPoint(of, found.begin_ns, found.end_ns, value)
        points.setdefault(name, []).append(point)
    for name, some in points.items():
        unit, text = NUMBERS.get(name, ("", ""))
        yield export.Metric(f"{SCOPE}.{name}", text, unit, export.Gauge(some))


def _parent(text: str) -> Any:
    """The span that W3C's Trace Context names; None for what it does not."""
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found = get_current_span(
        TraceContextTextMapPropagator().extract({"traceparent": text})
    ).get_span_context()
    return found if found.is_valid else None


def _rank(rank: str, host: str, numbers: Mapping[str, float]) -> dict[str, Any]:
    """numbers: of the job. Rank and world are those within the role."""
    role, _, number = rank.rpartition(":")
    about: dict[str, Any] = {"service.instance.id": rank, "nv.dl.role": role}
    if number.isdigit():
        about["nv.dl.rank"] = int(number)
    if world := numbers.get(f"ranks/{role}"):
        about["nv.dl.world_size"] = int(world)
    return {**about, "host.name": host} if host else about


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "big") or 1
