"""Breakdowns: what work, traffic and time are made of."""

from __future__ import annotations

from typing import NamedTuple

from .about import About
from .values import Value


class BreakdownPart(NamedTuple):
    """A part of a whole."""

    kind: str  # flops_by_width, traffic_by_level, time, ...
    subject: str  # "worker:0" or a role
    role: str
    part: str  # "f32 512-bit", "dram", "communicate", ...
    value: Value  # per step where there are steps
    share: Value  # of the subject's whole; absent where parts do not add up to a whole
    words: str


class Breakdown(NamedTuple):
    about: About
    parts: list[BreakdownPart]
    notes: list[str]
