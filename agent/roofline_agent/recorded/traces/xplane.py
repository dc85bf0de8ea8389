"""Reads what xplane_file.py makes of a profile of JAX or TensorFlow: XLA's operations, transfers next to them
as phases, and steps.

FLOPs and bytes are XLA's own counts, where the device's plane has them (TPU). Bytes are those that operations
access, whatever memory they come from.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..collector import Collector
from ..recording import Launch, StepLine, Throughput
from ..text import Text

_NOTE = "FLOPs by XLA's cost analysis"
# "copy-start" of "%copy-start.5 = (f32[8], ...) copy-start(...)"
_OPERATION = re.compile(r"%?([A-Za-z][\w-]*)")


def sniff(head: str) -> int:
    return 100 if head.startswith('{"xplane": 1}') else 0


def read(text: Text, found: Collector) -> None:
    found.tool = "xplane"
    devices: set[str] = set()
    for line in text.lines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if "kernel" in event:
            _kernel(event, found)
        elif "phase" in event:
            _phase(event, found)
        elif "step" in event:
            found.steps.append(StepLine(int(event["step"]), None, event["start_s"], None, event["time_s"]))
        elif "broken" in event:
            found.warn(f"{event['broken']}; read up to here")
        elif "device" in event:
            devices.add(event["device"])
        elif "started_ns" in event:
            found.started_ns = event["started_ns"]
        elif "host" in event:
            found.facts["host"] = event["host"]
    if devices:
        found.facts["device"] = ", ".join(sorted(devices))[:200]
    if steps := len(found.steps):
        found.throughput = Throughput("examples", None, None, steps, None, "this rank")


def _kernel(event: dict[str, Any], found: Collector) -> None:
    flops, moved = event.get("flops"), event.get("bytes_accessed")
    found.launch(
        Launch(
            event["kernel"] or "(no name)",
            event["time_s"],
            float(flops) if flops else None,
            {"minimum": float(moved)} if moved else {},
            start_s=event["start_s"],
            library="xla",
            problem=str(event.get("hlo_module", ""))[:80],
            note=_NOTE if flops else "",
            on_gpu=event.get("on_device"),
            counted=False,
        )
    )


def _phase(event: dict[str, Any], found: Collector) -> None:
    match = _OPERATION.match(event["phase"])
    moved = event.get("bytes")
    name = f"async {match[1] if match else 'operation'}"
    found.phase(name, event["time_s"], moved=float(moved) if moved else None)
