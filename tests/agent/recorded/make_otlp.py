"""Prints tests/data/recorded/otlp/two_ranks.jsonl, made with OpenTelemetry's SDK.

Names and attributes are those of Megatron-LM's own telemetry; times are chosen, so that the answers can be
computed by hand."""

import base64
import json

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import set_span_in_context

BEGIN_NS, MS = 1_790_000_000_000_000_000, 1_000_000


class Lines(SpanExporter):
    """A message a line, ids in hex as OTLP's JSON has them (protobuf's own JSON has base64)."""

    def export(self, spans):
        message = MessageToDict(encode_spans(spans))
        for resource in message["resourceSpans"]:
            for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64decode(span[name]).hex()
        print(json.dumps(message, separators=(",", ":")))
        return SpanExportResult.SUCCESS


def train(rank, forward_ms):
    about = {"nv.dl.rank": rank, "nv.dl.world_size": 2, "nv.dl.role": "trainer", "nv.dl.run.uuid": "run-7"}
    sizes = {"nv.dl.training.config.global_batch_size": 64, "nv.dl.topology.size.dp": 2}
    provider = TracerProvider(resource=Resource({**about, **sizes, "host.name": f"node{rank}"}))
    provider.add_span_processor(SimpleSpanProcessor(Lines()))
    tracer = provider.get_tracer("megatron")
    now = BEGIN_NS
    for step in range(1, 4):
        attributes = {"nv.dl.training.step": step}
        block = tracer.start_span("nv.dl.training.iter_block", attributes=attributes, start_time=now)
        inside = set_span_in_context(block)
        one = tracer.start_span("nv.dl.training.iteration", inside, attributes=attributes, start_time=now)
        for name, lasts in (("forward_backward", forward_ms), ("optimizer_step", 10)):
            part = tracer.start_span(
                f"nv.dl.training.iteration.{name}", set_span_in_context(one), start_time=now
            )
            now += lasts * MS
            part.end(now)
        one.end(now)
        if step == 2:
            check = tracer.start_span(
                "nv.dl.training.evaluate", inside, attributes=attributes, start_time=now
            )
            now += 50 * MS
            check.end(now)
        now += 5 * MS
        block.end(now)


train(0, 30)
train(1, 40)
about = Resource({"nv.dl.rank": 0, "nv.dl.role": "ckpt_worker"})  # has a rank's number and is none
provider = TracerProvider(resource=about)
provider.add_span_processor(SimpleSpanProcessor(Lines()))
provider.get_tracer("nvrx").start_span("nv.nvrx.ckpt.save", start_time=BEGIN_NS).end(BEGIN_NS + MS)
