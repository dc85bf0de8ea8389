"""What the trace of some steps holds, by step: kernels or operators, and collectives. No I/O except for the
file.

Kernels of a GPU are those that began in the step, wherever they end. Where the trace has none, the operators
on the CPU are listed in their place, each with the time that it spends outside the operators it calls.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from roofline_step.packets import Span

from ..hooks.profilers import ANCHOR
from ..recorded import batches
from ..recorded.collector import Collector
from ..recorded.recording import Launch
from ..recorded.text import Text, open_binary
from ..recorded.traces import kineto
from ..recorded.traces.collectives import collective_of
from ..recorded.traces.tensorflow import launches_of, waits_of
from ..recorded.traces.xplane_host import HostOperation, read_host
from ..records import KernelShape, TimedCall

MOST_CALLS = 200_000  # of all steps of a trace; a step that does not fit is left out whole
MOST_SHAPES = 20_000  # the agent knows so many kernels of a rank
COLLECTIVE = "engine."  # what a span of one that was executed is called
TENSORFLOW, JAX = "tensorflow", "jax"
OPERATORS = ("torch", TENSORFLOW, JAX)  # libraries of operators on the CPU


class TracedStep(NamedTuple):
    """number, begin_ns, end_ns: of the step, node time. calls: start_ns is UNIX time; those of the variant
    WAITING (recorded/traces/tensorflow.py) are no work."""

    number: int
    begin_ns: int
    end_ns: int
    calls: list[TimedCall]
    collectives: list[Span]


class TracedSteps(NamedTuple):
    """omitted: steps with more calls than are taken."""

    steps: list[TracedStep]
    omitted: list[int]
    on_gpu: bool


class Unreadable(Exception):
    """Why nothing can be had from a trace."""


def read(path: Path, borders: Sequence[tuple[int, int, int]], unix_minus_node_ns: int) -> TracedSteps:
    """The steps of a trace. borders: number, begin and end of each in node time, in order of time.

    Raises Unreadable, RecordedError and OSError.
    """
    if path.suffix == ".pb":
        return _read_xplane(path, borders, unix_minus_node_ns)
    with contextlib.closing(Collector(keep_launches=True)) as found:
        with open_binary(str(path)) as stream:
            text = Text(path.name, stream)
            kineto.read(text, found, with_layers=True)
        if found.started_ns is None or not found.launches:
            raise Unreadable("the trace holds no operator and no kernel")
        return _by_step(found.launches, found.started_ns, borders, unix_minus_node_ns)


def _of_xla(one: HostOperation) -> Launch:
    """XLA's operations have no shapes, so no FLOPs, and no layers."""
    return Launch(one.kind, max(0.0, one.time_s), start_s=one.begin_s, library=JAX, problem=one.name)


def _read_xplane(path: Path, borders: Sequence[tuple[int, int, int]], unix_minus_node_ns: int) -> TracedSteps:
    """Operations of TensorFlow's executors or of XLA on the CPU, and what they wait for."""
    found = read_host(path, ANCHOR, MOST_CALLS)
    if not found.operations or not found.anchors:
        raise Unreadable("the trace holds no operation on the CPU")
    at_s, node_ns = found.anchors[0]
    of_tensorflow = [one for one in found.operations if not one.by_xla]
    of_xla = [one for one in found.operations if one.by_xla]
    launches = [*launches_of(of_tensorflow), *waits_of(found.waits), *map(_of_xla, of_xla)]
    started_ns = node_ns - round(at_s * 1e9) + unix_minus_node_ns
    return _by_step(launches, started_ns, borders, unix_minus_node_ns)


def _by_step(
    launches: Iterable[Launch],
    started_ns: int,
    borders: Sequence[tuple[int, int, int]],
    unix_minus_node_ns: int,
) -> TracedSteps:
    steps = [TracedStep(*border, [], []) for border in borders]
    begins = [step.begin_ns for step in steps]
    shapes: dict[KernelShape, KernelShape] = {}
    full: set[int] = set()
    count, on_gpu = 0, False
    for launch in launches:
        if launch.start_s is None or launch.time_s is None:
            continue
        start = started_ns + round(launch.start_s * 1e9)
        lasted = max(0, round(launch.time_s * 1e9))
        at = bisect_right(begins, start - unix_minus_node_ns) - 1
        if at < 0 or start - unix_minus_node_ns >= steps[at].end_ns:
            continue
        on_gpu = on_gpu or launch.library not in OPERATORS
        if launch.library not in OPERATORS and (kind := collective_of(launch.name)):
            begin = start - unix_minus_node_ns
            steps[at].collectives.append((COLLECTIVE + kind, begin, begin + lasted, None, 1))
            continue
        shape = batches.shape_of(launch)
        if count >= MOST_CALLS or (shape not in shapes and len(shapes) >= MOST_SHAPES):
            full.add(at)
            continue
        count += 1
        steps[at].calls.append(TimedCall(shapes.setdefault(shape, shape), start, lasted))
    kept = [step for at, step in enumerate(steps) if at not in full]
    return TracedSteps(kept, [steps[at].number for at in sorted(full)], on_gpu)
