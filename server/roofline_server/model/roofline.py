"""The classic roofline (Williams, Waterman, Patterson 2009).

attainable(I) = min(peak FLOP/s, I x peak byte/s), I in FLOP/byte. All figures are of a whole node, as
`roofline-agent calibrate` measured them; ceilings below the roof (narrower vectors, other precisions) are
drawn but bind nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..records import Ceiling

LOWEST_INTENSITY, HIGHEST_INTENSITY = 2.0**-6, 2.0**12


class Roof(NamedTuple):
    """The two ceilings of one node that make its roof for one precision."""

    host: str
    compute: Ceiling
    memory: Ceiling

    def attainable(self, intensity: float) -> float:
        """FLOP/s a kernel of this intensity (FLOP/byte) could reach."""
        return min(self.compute.value, intensity * self.memory.value)

    @property
    def ridge(self) -> float:
        """Intensity at which the roof turns flat, FLOP/byte: the machine balance."""
        return self.compute.value / self.memory.value

    def binding(self, intensity: float) -> Ceiling:
        """The ceiling that binds at this intensity."""
        return self.memory if intensity < self.ridge else self.compute


class Line(NamedTuple):
    """A ceiling drawn: vertices (intensity, FLOP/s); `binding` when it is part of the roof."""

    ceiling: Ceiling
    intensity: tuple[float, ...]
    flops: tuple[float, ...]
    binding: bool


def make_roof(host: str, ceilings: Iterable[Ceiling], precision: str = "f32") -> Roof | None:
    """The roof of a node from its highest ceilings; None when either kind is missing."""
    usable = [c for c in ceilings if c.value > 0 and math.isfinite(c.value)]
    compute = [c for c in usable if c.kind == "compute" and c.precision == precision]
    memory = [c for c in usable if c.kind == "memory" and c.level == "dram"]
    if not compute or not memory:
        return None
    return Roof(host, max(compute, key=_height), max(memory, key=_height))


def lines(ceilings: Sequence[Ceiling], roof: Roof | None) -> list[Line]:
    """Ceilings as lines, cut where the highest of the other kind meets them; of the precision of the roof."""
    precision = roof.compute.precision if roof else None
    compute = [
        c for c in ceilings if c.kind == "compute" and c.value > 0 and precision in (None, c.precision)
    ]
    memory = [c for c in ceilings if c.kind == "memory" and c.value > 0]
    top = max(compute, key=_height, default=None)
    steepest = max(memory, key=_height, default=None)
    drawn = []
    for c in memory:
        end = top.value / c.value if top else HIGHEST_INTENSITY
        span = (LOWEST_INTENSITY, end)
        drawn.append(Line(c, span, tuple(i * c.value for i in span), roof is not None and c == roof.memory))
    for c in compute:
        begin = c.value / steepest.value if steepest else LOWEST_INTENSITY
        span = (begin, HIGHEST_INTENSITY)
        drawn.append(Line(c, span, (c.value, c.value), roof is not None and c == roof.compute))
    return drawn


def _height(ceiling: Ceiling) -> float:
    return ceiling.value
