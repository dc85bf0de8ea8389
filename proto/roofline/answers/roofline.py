"""Rooflines: points against the roofs of where they ran."""

from __future__ import annotations

from typing import NamedTuple

from .about import About
from .machines import Ceiling
from .values import Provenance, Spread, Value


class RoofLine(NamedTuple):
    """A ceiling to be drawn, straight on log axes."""

    name: str
    label: str
    kind: str  # memory, compute, network
    intensity: list[float]  # of its vertices, FLOP/byte
    flops: list[float]  # of its vertices, FLOP/s
    binding: bool  # part of the roof
    level: str  # l1, l2, l3, dram, hbm, network; of compute ""
    precision: str  # of compute
    width: int  # of compute, bits
    provenance: Provenance


class Roof(NamedTuple):
    """All ceilings of one device of one node."""

    host: str
    note: str  # what the roof is, and is not
    lines: list[RoofLine]
    ceilings: list[Ceiling]  # also those without a line
    device: str  # "" CPUs, "gpu 0"
    calibrated_ns: int  # when its newest ceiling was measured; 0: never


class RoofPoint(NamedTuple):
    """Something that computed, against its roof."""

    label: str
    kind: str  # role, rank, step, phase, kernel
    role: str
    rank: str  # of a role ""
    host: str
    device: str  # "" CPUs, "gpu 0"
    level: str  # of the bytes: minimum, l1, l2, l3, dram, hbm, network
    precision: str  # of most of its FLOPs
    intensity: Value  # FLOP/byte
    flops_per_second: Value
    intensity_spread: Spread | None
    flops_spread: Spread | None
    time: Value  # that it took in all, s
    bound: str  # name of the ceiling that binds; "": unknown
    attainable: Value  # FLOP/s under that ceiling
    headroom: Value  # attainable over achieved FLOP/s; without FLOPs network ceiling over byte/s
    words: str  # what holds it back and what would help, or why it has no roof
    incomplete: str  # what its counts lack; "": complete
    flops_per_joule: Value


class Crossing(NamedTuple):
    """From which batch size on a rank's work hides its communication."""

    label: str
    role: str
    batch: Value  # examples a step of one rank, as it ran
    crossing: Value  # examples a step at which compute and network take equally long
    words: str
    ridge: Value = Value(None, "FLOP/byte")  # at which its node balances


class Roofline(NamedTuple):
    about: About
    kind: str  # classic, hierarchical, network
    roofs: list[Roof]
    points: list[RoofPoint]  # worth most time first
    crossings: list[Crossing]  # of a network roofline
    notes: list[str]
