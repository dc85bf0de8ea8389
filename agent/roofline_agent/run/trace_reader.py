"""The process that reads a trace for the wrapper: `python -m roofline_agent.run.trace_reader DONE OUT`.

DONE is what the hooks wrote when the trace was complete (hooks/tracing.py), OUT where what was read goes. It is a
process of its own, with a bound on its memory, as reading takes seconds and the wrapper has output to forward.
"""

from __future__ import annotations

import json
import marshal
import resource
import sys
from pathlib import Path
from typing import NamedTuple

from roofline_agent.recorded.errors import RecordedError
from roofline_agent.records import KernelShape, TimedCall
from roofline_agent.run.traced_steps import TracedStep, TracedSteps, Unreadable, read

MEMORY_BYTES = 4 << 30


class Done(NamedTuple):
    """What the hooks wrote beside a trace. steps: number, begin and end of each, node time."""

    trace: Path
    framework: str
    steps: list[tuple[int, int, int]]
    unix_minus_node_ns: int
    stop_ns: int  # how long stopping the profiler and writing the trace took


def parse_done(path: Path) -> Done:
    """Raises ValueError, TypeError, KeyError and OSError."""
    found = json.loads(path.read_text())
    steps = [(int(number), int(begin), int(end)) for number, begin, end in found["steps"]]
    trace = path.parent / Path(found["trace"]).name
    return Done(
        trace, str(found["framework"]), steps, int(found["unix_minus_node_ns"]), int(found["stop_ns"])
    )


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


def main() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    done_path, out = map(Path, sys.argv[1:])
    try:
        done = parse_done(done_path)
        write(read(done.trace, done.steps, done.unix_minus_node_ns), out)
    except MemoryError:
        print(f"reading it takes more than {MEMORY_BYTES >> 30} GiB of memory", file=sys.stderr)
        return 1
    except (Unreadable, RecordedError, OSError, ValueError, KeyError, TypeError) as error:
        print(error or type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
