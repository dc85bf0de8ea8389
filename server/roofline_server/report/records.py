"""What a report holds, as plain records. Times are the server's, ns."""

from __future__ import annotations

from typing import NamedTuple

from ..model.records import Roof
from ..model.summary import Summary
from ..model.values import Provenance, Value
from ..records import SourceStatus


class RankReport(NamedTuple):
    rank: str
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    host: str
    pid: int
    name: str
    windows: str
    summary: Summary


class RoleReport(NamedTuple):
    role: str
    ranks: int
    hosts: list[str]
    summary: Summary


class Point(NamedTuple):
    label: str
    role: str
    host: str
    intensity: float
    flops: float
    provenance: Provenance
    level: str


class Gap(NamedTuple):
    """A stretch nobody watched, server time."""

    host: str
    rank: str
    begin_ns: int
    end_ns: int
    reason: str


class PartReport(NamedTuple):
    """What a node or a part of a node or rank counted while the job ran; rank "": it is the node's."""

    host: str
    rank: str
    instance: str
    source: str
    values: dict[str, Value]


class Fact(NamedTuple):
    """A setting or size that ranks said they had."""

    name: str
    value: str
    ranks: list[str]


class Report(NamedTuple):
    job: str
    begin_ns: int
    end_ns: int
    mode: str
    running: bool
    first_step: int | None
    last_step: int | None
    roles: list[RoleReport]
    ranks: list[RankReport]
    roofs: list[Roof]
    points: list[Point]
    alignment: list[tuple[str, Value]]
    gaps: list[Gap]
    notes: list[str]
    sources: list[tuple[str, list[SourceStatus]]]
    parts: list[PartReport]
    facts: list[Fact]
    tags: dict[str, str]
    verdicts: list[str]


class Cause(NamedTuple):
    """A rank that holds others up, or itself; the worst stands first."""

    rank: str
    host: str
    kind: str
    cost: Value
    share: Value
    steps: int
    of_steps: int
    evidence: list[str]


class RankWaits(NamedTuple):
    rank: str
    role: str
    host: str
    values: dict[str, Value]


class Imbalance(NamedTuple):
    """How unevenly ranks arrived in a stretch of steps."""

    first_step: int
    last_step: int
    begin_ns: int
    end_ns: int
    wait: Value
    last: str
    share: Value


class ServerLoad(NamedTuple):
    rank: str
    host: str
    values: dict[str, Value]


class Stragglers(NamedTuple):
    job: str
    mode: str
    verdict: str
    barrier: str
    causes: list[Cause]
    ranks: list[RankWaits]
    imbalance: list[Imbalance]
    servers: list[ServerLoad]
    notes: list[str]


class JobSummary(NamedTuple):
    job: str
    begin_ns: int
    end_ns: int
    roles: dict[str, int]
    hosts: list[str]
    running: bool
    tags: dict[str, str]


class Steps(NamedTuple):
    """Which steps a question is about; None: no bound."""

    first: int | None = None
    last: int | None = None


ALL_STEPS = Steps()


class Subject(NamedTuple):
    """Of which job, steps and ranks a model shall be. ranks: "worker:0"; none: all."""

    job: str
    steps: Steps = ALL_STEPS
    ranks: tuple[str, ...] = ()
