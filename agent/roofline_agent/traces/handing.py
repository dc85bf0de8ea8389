"""How a trace is handed on: from the hooks to the process that reads it, and from that to the wrapper."""

from __future__ import annotations

import json
import marshal
from pathlib import Path
from typing import NamedTuple

from ..records import KernelShape, TimedCall
from .steps import TracedStep, TracedSteps


class Done(NamedTuple):
    """What the hooks wrote next to a complete trace (hooks/tracing.py). steps: number, begin and end of each,
    node time."""

    trace: Path
    framework: str
    steps: list[tuple[int, int, int]]
    unix_minus_node_ns: int
    stop_ns: int  # how long stopping the profiler and writing the trace took


def parse_done(path: Path) -> Done:
    """Raises ValueError, TypeError, KeyError and OSError."""
    done = json.loads(path.read_text())
    steps = [(int(number), int(begin), int(end)) for number, begin, end in done["steps"]]
    trace = path.parent / str(done["trace"])
    return Done(trace, str(done["framework"]), steps, int(done["unix_minus_node_ns"]), int(done["stop_ns"]))


def write(found: TracedSteps, path: Path) -> None:
    """As `load` reads it."""
    numbers: dict[KernelShape, int] = {}
    steps = []
    for step in found.steps:
        calls = [
            (numbers.setdefault(one.shape, len(numbers)), one.start_ns, one.duration_ns) for one in step.calls
        ]
        steps.append((step.number, step.begin_ns, step.end_ns, calls, [tuple(c) for c in step.collectives]))
    path.write_bytes(marshal.dumps((list(map(tuple, numbers)), steps, found.omitted, found.on_gpu)))


def load(path: Path) -> TracedSteps:
    """What the process has read. Raises OSError, ValueError and TypeError."""
    shapes, steps, omitted, on_gpu = marshal.loads(path.read_bytes())
    kernels = [KernelShape(*shape) for shape in shapes]
    found = [
        TracedStep(number, begin, end, [TimedCall(kernels[at], *when) for at, *when in calls], collectives)
        for number, begin, end, calls, collectives in steps
    ]
    return TracedSteps(found, omitted, on_gpu)
