"""Sends a job to an OpenTelemetry collector by OTLP over HTTP: steps and phases as a trace, and numbers.

A job is one trace, always of the same id; each rank is a resource. Attributes have the names of the
semantic conventions of OpenTelemetry (service.*, host.name) and of NVIDIA for training (nv.dl.*).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from roofline.answers.tables import TableChunk

from ..errors import ClientError
from .published import Published

AT_ONCE = 512  # spans in a request
ROWS = ("steps", "phases")
SCOPE = "roofline"


class Sent(NamedTuple):
    trace_id: str
    spans: int
    metrics: int


def write(found: Published, url: str, chunks: Iterable[TableChunk], timeout_s: float = 20) -> Sent:
    """chunks: of the job's timeline. Headers and certificates are those of OTEL_EXPORTER_OTLP_HEADERS and its
    like, which the SDK reads. Raises ClientError where the collector does not answer or refuses."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    base = url.rstrip("/")
    trace = _JobTrace(found)
    spans, count = trace.spans(chunks), 0
    exporter: Any = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=timeout_s)
    while some := list(islice(spans, AT_ONCE)):
        _send(exporter, some, found.job, base)
        count += len(some)
    metrics = trace.metrics()
    _send(OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=timeout_s), metrics, found.job, base)
    return Sent(f"{trace.trace_id:032x}", count, len(found.metrics))


def _send(exporter: Any, batch: Any, job: str, base: str) -> None:
    """Both exporters' results are enumerations with a SUCCESS; their reasons are in their log alone."""
    if exporter.export(batch).name != "SUCCESS":
        raise ClientError(
            f"the collector at {base} has not taken all of job {job}; its own log has the reason"
        )


class _JobTrace:
    """Spans of one job. Ids are computed, so that a job that is sent again is the same trace."""

    def __init__(self, found: Published) -> None:
        self._found = found
        self.trace_id = _number(f"{found.job} {found.begin_ns}", 16)
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
        yield self._span(f"job {found.job}", self._root, None, resource, (found.begin_ns, found.end_ns), {})
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
        if row["row"] == "steps":
            steps.append((begin, end, context))
            parent = self._root
        else:
            parent = self._step_of(steps, begin)
        attributes = {"roofline.row": str(row["row"])}
        return self._span(str(row["name"]), context, parent, resource, (begin, end), attributes)

    def _step_of(self, steps: list[tuple[int, int, Any]], moment: int) -> Any:
        """The step that had begun and not ended, else the job."""
        before = bisect_right(steps, moment, key=lambda step: step[0])
        if before and moment < steps[before - 1][1]:
            return steps[before - 1][2]
        return self._root

    def _context(self, name: str) -> Any:
        from opentelemetry.trace import SpanContext, TraceFlags

        span_id = _number(f"{self.trace_id} {name}", 8)
        return SpanContext(
            self.trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
        )

    def _span(
        self, name: str, context: Any, parent: Any, resource: Any, when: tuple[int, int], attributes: Any
    ) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        return ReadableSpan(
            name=name,
            context=context,
            parent=parent,
            resource=resource,
            attributes=attributes,
            start_time=when[0],
            end_time=max(when),
            instrumentation_scope=InstrumentationScope(SCOPE),
        )

    def metrics(self) -> Any:
        from opentelemetry.sdk.metrics import export
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        found = self._found
        made = [
            export.Metric(
                f"roofline.{name.replace('/', '.')}",
                "",
                "",
                export.Gauge([export.NumberDataPoint({}, found.begin_ns, found.end_ns, value)]),
            )
            for name, value in found.metrics.items()
        ]
        scope = export.ScopeMetrics(InstrumentationScope(SCOPE), made, "")
        return export.MetricsData([export.ResourceMetrics(Resource(self._about), [scope], "")])


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
