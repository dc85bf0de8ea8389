"""Says steps of 20 ms by OpenTelemetry alone (RANK STEPS), then waits for its stdin to end."""

import sys
import time

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

rank, steps = int(sys.argv[1]), int(sys.argv[2])
about = {"nv.dl.rank": rank, "nv.dl.world_size": 2, "nv.dl.role": "trainer", "nv.dl.run.uuid": "run-7"}
sizes = {"nv.dl.training.config.global_batch_size": 64, "nv.dl.topology.size.dp": 2}
provider = TracerProvider(resource=Resource({**about, **sizes}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=500))
tracer = provider.get_tracer("training")
for step in range(steps):
    with tracer.start_as_current_span("train_step", attributes={"nv.dl.training.step": step}):
        with tracer.start_as_current_span("forward"):
            time.sleep(0.015)
        with tracer.start_as_current_span("optimizer_step"):
            time.sleep(0.005)
provider.force_flush()
sys.stdin.read()
