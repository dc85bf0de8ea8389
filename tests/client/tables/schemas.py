"""What the tests of JSON schemas share: ceilings of this machine, and the objects that a schema describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline_agent.calibrate.calibration import Calibration, Ceiling
from roofline_agent.machine import read_machine

_HERE = read_machine()
CALIBRATION = Calibration(
    _HERE.host,
    _HERE.cpu_model,
    2,
    1,
    (
        Ceiling("peak.f32.512", "compute", "", "f32", 512, 4e11, "FLOP/s", 0.01, "seven runs", 1),
        Ceiling("dram.triad", "memory", "dram", "", 0, 4e10, "byte/s", 0.02, "seven runs", 1),
    ),
)


def objects(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        if "properties" in schema and "type" in schema:
            yield schema
        for part in schema.values():
            yield from objects(part)
