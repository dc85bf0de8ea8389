"""What the models say, as plain records: the messages of models.proto, field by field.

Rates are FLOP/s and byte/s, times s, moments ns of the server's UNIX time. None: not there.
"""

from __future__ import annotations

from typing import NamedTuple

from ..records import Ceiling
from .values import Provenance, Value


class MachineAbout(NamedTuple):
    host: str
    cpu_model: str
    cpus: int
    calibrated_ns: int


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


class RoofLine(NamedTuple):
    """A ceiling to be drawn: vertices (FLOP/byte, FLOP/s); binding: part of the roof."""

    name: str
    label: str
    kind: str
    intensity: list[float]
    flops: list[float]
    binding: bool
    level: str
    precision: str
    width: int
    provenance: Provenance


class Roof(NamedTuple):
    """All ceilings of one device of one node. device "": its CPUs."""

    host: str
    note: str
    lines: list[RoofLine]
    ceilings: list[Ceiling]
    device: str
    calibrated_ns: int


class RoofPoint(NamedTuple):
    """Something that computed, against its roof. Field by field in models.proto."""

    label: str
    kind: str
    role: str
    rank: str
    host: str
    device: str
    level: str
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
    ridge: Value


class Roofline(NamedTuple):
    about: About
    kind: str
    roofs: list[Roof]
    points: list[RoofPoint]
    crossings: list[Crossing]
    notes: list[str]


class TimePoint(NamedTuple):
    """A kernel or step in the plane of bytes and FLOPs, by its complexity and by its time."""

    label: str
    kind: str
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
    bound: str
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
    """compute, memory None: no such ceiling, so its points have no open symbols."""

    host: str
    device: str
    precision: str
    compute: Ceiling | None
    memory: Ceiling | None
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
    over: str  # what differs between several jobs


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
