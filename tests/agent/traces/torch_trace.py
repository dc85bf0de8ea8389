"""A trace as PyTorch's profiler writes it: a few operators in two steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

UNIX_MINUS_NODE = 1_700_000_000_000_000_000
US = 1000


def event(name: str, at_us: int, lasts_us: int, category: str = "cpu_op", **args: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": at_us,
        "dur": lasts_us,
        "args": args,
    }


def trace(folder: Path, *events: dict[str, Any]) -> Path:
    """A trace whose times count from node time 0."""
    path = folder / "1-1.json"
    path.write_text(
        json.dumps({"baseTimeNanoseconds": UNIX_MINUS_NODE, "schemaVersion": 1, "traceEvents": events})
    )
    return path


LINEAR = event("aten::linear", 100, 50)
PRODUCT = event(
    "aten::addmm", 110, 30, **{"Input Dims": [[8], [4, 16], [16, 8]], "Input type": ["float"] * 3}
)
LATER = event("aten::relu", 210, 5)
BORDERS = [(7, 90 * US, 200 * US), (8, 200 * US, 300 * US)]
