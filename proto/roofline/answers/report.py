"""The report of a job."""

from __future__ import annotations

from typing import NamedTuple

from .machines import SourceStatus
from .roofline import Roof
from .values import Provenance, Value
from .verdict import Verdict


class Summary(NamedTuple):
    """Statistics of one rank or of one role; names of values: docs/metrics.md."""

    values: dict[str, Value]
    bound: str  # name of the ceiling that binds; "": unknown
    bound_reason: str  # why it is unknown


class RankReport(NamedTuple):
    rank: str  # "worker:0"
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    host: str
    pid: int | None  # None: only another rank reported it
    name: str
    windows: str  # whose step windows were used
    summary: Summary


class RoleReport(NamedTuple):
    role: str
    ranks: int
    hosts: list[str]
    summary: Summary


class Point(NamedTuple):
    """One rank in the roofline of its node."""

    label: str
    role: str
    host: str
    intensity: float  # FLOP/byte
    flops: float  # FLOP/s
    provenance: Provenance  # of the FLOPs
    level: str  # which bytes the intensity is over


class Gap(NamedTuple):
    """A stretch of time in which nobody watched a node or rank."""

    host: str
    rank: str  # "": the whole node
    begin_ns: int
    end_ns: int
    reason: str


class Alignment(NamedTuple):
    """Bound on the error of a node's clock against the server's, s."""

    host: str
    error: Value


class SourceReport(NamedTuple):
    """The sources of a node's agent, also those that do not work."""

    host: str
    sources: list[SourceStatus]


class PartReport(NamedTuple):
    """What a node, or a part of a node or rank, counted while the job ran."""

    host: str
    rank: str  # "": it is the node's
    instance: str  # "socket 0", "gpu 1", "eth0"; "": the whole node
    source: str
    values: dict[str, Value]


class Fact(NamedTuple):
    """Something about ranks that did not change: a setting, a size, the hook that marked their steps."""

    name: str
    value: str
    ranks: list[str]


class ProfilerCost(NamedTuple):
    """What the profiler itself cost a training; names of values: docs/metrics.md."""

    words: str  # one line; "": nothing is known
    values: dict[str, Value]


class RankExit(NamedTuple):
    """How a rank ended."""

    rank: str  # "worker:0"
    state: str  # running, exited, silent: not heard of, though its exit was not seen
    status: int | None  # exit code, or the signal that ended it, negative; None: not known
    last_step: int | None  # the last step it finished
    time_ns: int  # when it was seen last, server's UNIX time
    words: str  # "exited with 3 after step 20"


class Report(NamedTuple):
    job: str
    begin_ns: int
    end_ns: int
    mode: str  # synchronous, asynchronous; "": there are no steps
    running: bool
    first_step: int | None  # as asked
    last_step: int | None  # as asked
    roles: list[RoleReport]
    ranks: list[RankReport]
    roofs: list[Roof]
    points: list[Point]  # ranks whose FLOPs and bytes are known
    alignment: list[Alignment]
    gaps: list[Gap]
    notes: list[str]  # most important first
    sources: list[SourceReport]
    parts: list[PartReport]
    facts: list[Fact]
    tags: dict[str, str]
    verdicts: list[str]  # a sentence a role, then who waits
    cost: ProfilerCost
    verdict: Verdict | None = None
    state: str = ""  # "running", "finished (exit 0)", "failed: worker:1 exited with 3 after step 20"
    exits: list[RankExit] = []  # noqa: RUF012 - never written to; in the order of `ranks`
