"""Answers as plain records. Field names are those of the schemas in docs/."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Value(NamedTuple):
    """A number with its history; value None: absent, and `reason` says why."""

    value: float | None
    unit: str
    provenance: str  # measured, estimated, analytic, reported, or "" when absent
    scope: str  # process, socket, node, gpu, role, or "" when absent
    coverage: float | None  # share of what should have been seen that was, 0..1
    reason: str


class Summary(NamedTuple):
    values: dict[str, Value]
    bound: str
    bound_reason: str


class RankReport(NamedTuple):
    rank: str
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    host: str
    pid: int | None
    name: str
    windows: str
    summary: Summary


class RoleReport(NamedTuple):
    role: str
    ranks: int
    hosts: list[str]
    summary: Summary


class RoofLine(NamedTuple):
    name: str
    label: str
    kind: str
    intensity: list[float]
    flops: list[float]
    binding: bool
    level: str
    precision: str
    width: int
    provenance: str


THEORETICAL = "analytic"  # provenance of a ceiling that nobody measured


class Ceiling(NamedTuple):
    """One limit of a machine; None: not said. Names: docs/ceilings.md."""

    name: str
    kind: str  # compute, memory, network, latency, overhead
    level: str
    precision: str
    width: int
    value: float
    unit: str
    spread: float
    method: str
    time_ns: int
    device: str  # "" the CPUs of the node, "gpu 0"
    threads: int | None
    provenance: str
    median: float | None
    clock_hz: float | None
    peer: str
    operation: str
    doubt: str  # why the machine may do better; "": nothing is known


class Roof(NamedTuple):
    host: str
    note: str
    lines: list[RoofLine]
    ceilings: list[Ceiling]
    device: str
    calibrated_ns: int  # 0: never


class Machine(NamedTuple):
    host: str
    cpu_model: str
    sockets: int
    cores: int
    cpus: int
    memory_bytes: int
    kernel: str
    ceilings: list[Ceiling]


class Point(NamedTuple):
    label: str
    role: str
    host: str
    intensity: float
    flops: float
    provenance: str
    level: str


class Gap(NamedTuple):
    host: str
    rank: str
    begin_ns: int
    end_ns: int
    reason: str


class Alignment(NamedTuple):
    host: str
    error: Value


class Source(NamedTuple):
    host: str
    name: str
    works: bool
    reason: str
    advice: str
    fills: str


class Part(NamedTuple):
    """What a node or a part of a node or rank counted while the job ran; rank "": it is the node's."""

    host: str
    rank: str
    instance: str
    source: str
    values: dict[str, Value]


class Fact(NamedTuple):
    """Something about ranks that did not change: a setting, a size, the hook that marked their steps."""

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
    alignment: list[Alignment]
    gaps: list[Gap]
    notes: list[str]
    sources: list[Source]
    parts: list[Part]
    facts: list[Fact]
    tags: dict[str, str]
    verdicts: list[str]  # a sentence a role, then who waits


class Job(NamedTuple):
    job: str
    begin_ns: int
    end_ns: int
    ranks: int
    roles: dict[str, int]
    hosts: list[str]
    running: bool
    tags: dict[str, str]


class TableColumn(NamedTuple):
    """values: one per row, whole numbers, numbers or texts; None (of a text: empty) is absent."""

    name: str
    unit: str
    provenance: str
    reason: str  # what to know about the values
    values: Sequence[int | float | str | None]


class TableChunk(NamedTuple):
    """Some rows of a dataset: a piece of an answer that may be too large to hold."""

    dataset: str
    columns: list[TableColumn]
    notes: list[str]

    @property
    def rows(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def records(self) -> Iterator[dict[str, int | float | str | None]]:
        """The rows, each by column name."""
        names = [column.name for column in self.columns]
        for row in zip(*(column.values for column in self.columns), strict=True):
            yield dict(zip(names, row, strict=True))


class Cause(NamedTuple):
    """A rank that holds others up, or itself. kind: input, compute, cpu, delay or server."""

    rank: str
    host: str
    kind: str
    cost: Value
    share: Value
    steps: int
    of_steps: int
    evidence: list[str]


class RankWaits(NamedTuple):
    """Where the time of a rank's steps goes: input, compute, communicate, wait, other; mean a step."""

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
    """What one parameter server did for the workers."""

    rank: str
    host: str
    values: dict[str, Value]


class Stragglers(NamedTuple):
    """Who waited for whom. verdict: one sentence; barrier: how it was seen that ranks wait for each other."""

    job: str
    mode: str
    verdict: str
    barrier: str
    causes: list[Cause]
    ranks: list[RankWaits]
    imbalance: list[Imbalance]
    servers: list[ServerLoad]
    notes: list[str]
