"""Time-based rooflines: complexity and time of kernels or steps in one plane of bytes and FLOPs."""

from __future__ import annotations

from typing import NamedTuple

from .about import About
from .machines import Ceiling
from .values import Spread, Value


class TimePoint(NamedTuple):
    """A kernel or step, twice in the plane: by its complexity (bytes, flops) and by its time (time_bytes,
    time_flops). Counts are of its launches in one step of one rank; without steps of the whole run."""

    label: str
    kind: str  # kernel, step
    role: str
    rank: str
    job: str
    at: str  # value of the swept parameter; "": none
    flops: Value
    bytes: Value
    time: Value
    launches: int
    bandwidth_time: Value
    compute_time: Value
    time_bytes: float  # bandwidth time x peak byte/s
    time_flops: float  # compute time x peak FLOP/s
    bound: str  # compute, memory, overhead
    time_spread: Spread | None  # of one launch or step, s
    incomplete: str  # what its counts lack; "": complete
    words: str
    level: str  # which bytes: minimum, dram, hbm


class OverheadBox(NamedTuple):
    """What n launches cost at least: left of and below its corner the overhead decides."""

    launches: int
    bytes: float  # n x overhead x peak byte/s
    flops: float  # n x overhead x peak FLOP/s
    label: str


class Isocurve(NamedTuple):
    """All that takes the same time on this machine."""

    seconds: float
    bytes: list[float]  # of its vertices
    flops: list[float]  # of its vertices


class TimePanel(NamedTuple):
    """The plane of one node, device and precision."""

    host: str
    device: str  # "" CPUs, "gpu 0"
    precision: str  # of the compute peak
    compute: Ceiling | None  # peak FLOP/s; None: not measured, then points have no open symbols
    memory: Ceiling | None  # peak byte/s
    balance: Value  # FLOP/byte
    launch_overhead: Value  # s a launch
    points: list[TimePoint]  # worth most time first
    no_flop_launches: Value  # of kernels without FLOPs, which are no points
    no_flop_time: Value  # s these took
    boxes: list[OverheadBox]
    isocurves: list[Isocurve]


class TimeRoofline(NamedTuple):
    about: About
    panels: list[TimePanel]
    notes: list[str]
    over: str = ""  # what differs between several jobs; "": nothing was asked for
