"""Answers of the models as plain records: the messages of models.proto, field by field.

Rates are FLOP/s and byte/s, times s, moments ns of UNIX time on the server's clock. What can be missing is a
`Value` without a number, or None.
"""

from __future__ import annotations

from typing import NamedTuple

from .records import Ceiling, Machine, Roof, Value


class MachineAbout(NamedTuple):
    host: str
    cpu_model: str
    cpus: int
    calibrated_ns: int  # 0: never


class About(NamedTuple):
    """What stands under a picture. alignment: bound on the worst node's clock error, s; step_time: the
    shortest median step of a rank, s."""

    jobs: list[str]
    experiment: str
    begin_ns: int
    end_ns: int
    machines: list[MachineAbout]
    alignment: Value
    step_time: Value
    tags: dict[str, str]


class Spread(NamedTuple):
    """Quantiles over steps or calls."""

    p5: float
    p25: float
    p50: float
    p75: float
    p95: float
    count: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name


class RoofPoint(NamedTuple):
    """Something that computed, against its roof; `headroom` is attainable over reached FLOP/s."""

    label: str
    kind: str  # role, rank, step, phase, kernel
    role: str
    rank: str
    host: str
    device: str  # "" CPUs, "gpu 0"
    level: str  # of the bytes: minimum, l1, l2, l3, dram, hbm, network
    precision: str
    intensity: Value
    flops_per_second: Value
    intensity_spread: Spread | None
    flops_spread: Spread | None
    time: Value
    bound: str
    attainable: Value
    headroom: Value
    words: str
    incomplete: str
    flops_per_joule: Value


class Crossing(NamedTuple):
    """From which batch size on a rank's work hides its communication."""

    label: str
    role: str
    batch: Value
    crossing: Value
    words: str
    ridge: Value = Value(None, "FLOP/byte", "", "", None, "")  # of its node; older servers do not tell it


class Roofline(NamedTuple):
    about: About
    kind: str  # classic, hierarchical, network
    roofs: list[Roof]
    points: list[RoofPoint]
    crossings: list[Crossing]
    notes: list[str]


class TimePoint(NamedTuple):
    """A kernel or step in the plane of bytes and FLOPs: by its complexity (bytes, flops) and by its time
    (time_bytes, time_flops)."""

    label: str
    kind: str  # kernel, step
    role: str
    rank: str
    job: str
    at: str
    flops: Value
    bytes: Value
    time: Value
    launches: int
    bandwidth_time: Value
    compute_time: Value
    time_bytes: float
    time_flops: float
    bound: str  # compute, memory, overhead
    time_spread: Spread | None
    incomplete: str
    words: str
    level: str


class OverheadBox(NamedTuple):
    launches: int
    bytes: float
    flops: float
    label: str


class Isocurve(NamedTuple):
    seconds: float
    bytes: list[float]
    flops: list[float]


class TimePanel(NamedTuple):
    host: str
    device: str
    precision: str
    compute: Ceiling
    memory: Ceiling
    balance: Value
    launch_overhead: Value
    points: list[TimePoint]
    no_flop_launches: Value
    no_flop_time: Value
    boxes: list[OverheadBox]
    isocurves: list[Isocurve]


class TimeRoofline(NamedTuple):
    about: About
    panels: list[TimePanel]
    notes: list[str]
    over: str = ""  # what differs between several jobs; older servers do not tell it


class Stop(NamedTuple):
    """A role in the jobs with one value of the parameter."""

    at: str
    jobs: list[str]
    point: RoofPoint
    throughput: Value
    speedup: Value
    efficiency: Value
    step_time: Value


class Path(NamedTuple):
    role: str
    stops: list[Stop]
    words: str


class Trajectory(NamedTuple):
    about: About
    over: str
    paths: list[Path]
    roofs: list[Roof]
    notes: list[str]


class BreakdownPart(NamedTuple):
    kind: str
    subject: str
    role: str
    part: str
    value: Value
    share: Value
    words: str


class Breakdown(NamedTuple):
    about: About
    parts: list[BreakdownPart]
    notes: list[str]


class MachineVersion(NamedTuple):
    """What was true of a machine for a while; until_ns 0: it holds."""

    machine: Machine
    version: int
    since_ns: int
    until_ns: int
    jobs: list[str]
    connected: bool
    agent: str


class NetResult(NamedTuple):
    """One measurement of the network between two agents."""

    name: str
    transport: str
    pattern: str
    payload: str
    buffers: str
    buffer_count: int
    message_bytes: int
    serialized: bool
    value: float
    unit: str
    spread: Spread | None
    method: str
    time_ns: int


class NetSummary(NamedTuple):
    ceilings: list[Ceiling]
    notes: list[str]
