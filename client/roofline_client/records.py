"""A report as plain records. Field names are those of docs/report.schema.json."""

from __future__ import annotations

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
    pid: int
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


class Ceiling(NamedTuple):
    name: str
    kind: str
    level: str
    precision: str
    width: int
    value: float
    unit: str
    spread: float
    method: str
    time_ns: int


class Roof(NamedTuple):
    host: str
    note: str
    lines: list[RoofLine]
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


class Job(NamedTuple):
    job: str
    begin_ns: int
    end_ns: int
    ranks: int
    roles: dict[str, int]
    hosts: list[str]
    running: bool
