"""Roofs: which ceilings limit a rank where it computes, and the lines they are drawn as.

Classic (Williams, Waterman, Patterson 2009): attainable(I) = min(peak FLOP/s, I x peak byte/s), I in FLOP per
byte of main memory. Hierarchical (Yang, Kurth, Williams 2020): the same for each level of memory, with the
intensity over the bytes of that level. Network: the same over the bytes communicated.

Only what was measured or reported binds: a theoretical ceiling is drawn next to it, and stands in alone for a
GPU of which nothing else is known. What a part of the CPUs reaches is no ceiling of the node where more were
measured together.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.machines import Ceiling
from roofline.answers.roofline import RoofLine
from roofline.answers.values import Provenance

from ...sentences import rooflines as texts
from ...sentences.wording import joined

LOWEST_INTENSITY, HIGHEST_INTENSITY = 2.0**-6, 2.0**12
MINIMUM, NETWORK = "minimum", "network"  # levels that are none of a memory
CACHES = ("l1", "l2", "l3")
UNMEASURED = ("l1", "l3")  # levels of a GPU that nothing here measures
WITHOUT_FMA = "mul_add"
FP8 = ("f8_e4m3", "f8_e5m2", "f8")  # GPUs multiply both formats equally fast, and counters do not tell which
REVERSE = "reverse"  # of a network: measured by the peer, which sent


def main_memory(device: str) -> str:
    """The level of a device's main memory: "hbm" of a GPU, "dram" of the CPUs."""
    return "hbm" if device else "dram"


class Limits(NamedTuple):
    """What binds on one device in one precision: of each kind the highest that was measured or reported."""

    host: str
    device: str  # "" the CPUs
    precision: str
    compute: Ceiling | None
    slopes: Mapping[str, Ceiling]  # by level: bandwidth of memories, and of the network
    launch: Ceiling | None = None  # what launching a kernel costs at least, s
    note: str = ""  # what to know about the device
    network_note: str = ""  # what to know about the ceiling of the network
    nowhere: str = ""  # why it is not known which device it is
    part: str = ""  # of the node that was measured: "4 of 128 CPUs"; "": all of it, as far as is known

    def bandwidth(self, level: str = MINIMUM) -> Ceiling | None:
        """The ceiling of bytes of this level; that of its tensors is compared with main memory."""
        return self.slopes.get(main_memory(self.device) if level == MINIMUM else level)

    @property
    def stand_in(self) -> str:
        """Of which other kind of FP8 the compute ceiling is; "": of the precision itself."""
        other = self.compute is not None and self.compute.precision != self.precision
        return texts.other_fp8(self.precision, self.compute.precision) if self.compute and other else ""

    def attainable(self, intensity: float, level: str = MINIMUM) -> float | None:
        """FLOP/s that can be reached with so many FLOP per byte of this level; None: a ceiling is missing."""
        slope = self.bandwidth(level)
        if self.compute is None or slope is None:
            return None
        return min(self.compute.value, intensity * slope.value)

    def ridge(self, level: str = MINIMUM) -> float | None:
        """Intensity at which the roof turns flat, FLOP/byte: the balance of the machine."""
        slope = self.bandwidth(level)
        return None if self.compute is None or slope is None else self.compute.value / slope.value

    def binding(self, intensity: float, level: str = MINIMUM) -> Ceiling | None:
        """The ceiling that binds at this intensity."""
        ridge = self.ridge(level)
        if ridge is None:
            return None
        return self.bandwidth(level) if intensity < ridge else self.compute

    def lacks(self, level: str = MINIMUM) -> str:
        """Which ceilings there are none of, and what to do about it; "": none is missing."""
        if self.nowhere:
            return self.nowhere
        slope = self.bandwidth(level)
        if slope is None and level == NETWORK:
            return texts.no_network_ceiling(self.host)
        if self.compute is None:
            return self.lacks_peak()
        if slope is not None:
            return ""
        if self.device and level in UNMEASURED:
            return texts.no_way_to_measure(level)
        memory = main_memory(self.device) if level == MINIMUM else level
        return texts.no_bandwidth(self.host, self.device, memory)

    def lacks_peak(self) -> str:
        """Why there is no compute ceiling, and what to do about it; "": there is one."""
        if self.nowhere or self.compute is not None:
            return self.nowhere
        if not self.slopes.keys() - {NETWORK}:
            return texts.no_ceilings(self.host, self.device)
        if not self.precision:
            return texts.NO_PRECISION
        return texts.no_compute_ceiling(self.host, self.device, self.precision)


def limits(host: str, device: str, ceilings: Iterable[Ceiling], precision: str, cpus: int = 0) -> Limits:
    """The ceilings that bind on a device. ceilings: of this device, and those of its node's network.

    cpus: logical CPUs of the node; 0: not known.
    """
    every = of_node(ceilings)
    theory = is_theory_alone(every)
    known = [c for c in every if theory or counts(c)]
    mine = with_ceilings(known, precision)
    compute = [c for c in known if c.kind == "compute" and c.precision == mine]
    slopes: dict[str, Ceiling] = {}
    for c in known:
        if c.kind in ("memory", "network") and (c.level not in slopes or c.value > slopes[c.level].value):
            slopes[c.level] = c
    launch = min((c for c in known if c.kind == "overhead"), key=_value, default=None)
    top = max(compute, key=_value, default=None)
    part = part_of([c for c in (top, *slopes.values()) if c], cpus)
    found = Limits(host, device, precision, top, slopes, launch, texts.THEORY if theory else "", part=part)
    return found._replace(note=joined(found.note, found.stand_in))


def with_ceilings(ceilings: Iterable[Ceiling], precision: str) -> str:
    """This precision, or another kind of FP8 where only that has compute ceilings."""
    if precision not in FP8:
        return precision
    known = {c.precision for c in ceilings if c.kind == "compute"}
    return next((one for one in (precision, *FP8) if one in known), precision)


def part_of(ceilings: Iterable[Ceiling], cpus: int) -> str:
    """Of how many CPUs of a node these ceilings are, the least of them; "": of all, or it is not known."""
    measured = (c.threads for c in ceilings if _of_cpus(c) and c.threads and counts(c))
    fewest = min(measured, default=cpus)
    return texts.some_cpus(fewest, cpus) if fewest < cpus else ""


def counts(ceiling: Ceiling) -> bool:
    """Whether a ceiling can bind: a number above zero, measured or reported, not of one core of several."""
    return _drawable(ceiling) and ceiling.provenance != Provenance.ANALYTIC


def is_theory_alone(ceilings: Iterable[Ceiling]) -> bool:
    """Whether of a GPU no compute or memory ceiling was measured or reported, but theory is known."""
    gpu = [c for c in ceilings if c.device and c.kind in ("compute", "memory") and _drawable(c)]
    return bool(gpu) and not any(counts(c) for c in gpu)


def _drawable(ceiling: Ceiling) -> bool:
    single = "one" in ceiling.name.split(".")
    return ceiling.value > 0 and math.isfinite(ceiling.value) and not single


def _of_cpus(ceiling: Ceiling) -> bool:
    """Whether more CPUs make it higher. Operations are launched from one thread: no less the node's."""
    return ceiling.kind in ("compute", "memory") and not ceiling.device


def of_node(ceilings: Iterable[Ceiling]) -> list[Ceiling]:
    """What can be drawn; of CPUs what most of them did together, of compute and of memory, and theory."""
    some = [c for c in ceilings if _drawable(c)]
    most = {
        kind: max((c.threads or 0 for c in some if _of_cpus(c) and c.kind == kind and counts(c)), default=0)
        for kind in ("compute", "memory")
    }
    return [c for c in some if not (_of_cpus(c) and counts(c) and 0 < (c.threads or 0) < most[c.kind])]


def lines(
    ceilings: Sequence[Ceiling], precisions: Collection[str], binding: Collection[str]
) -> list[RoofLine]:
    """Ceilings as lines, each cut where the highest of the other kind meets it.

    precisions: whose compute ceilings are drawn, the highest measured of each as part of the roof; none: the
    highest of every precision, none of them part of a roof. binding: levels whose lines are part. Of the
    bandwidths of a level (read, copy, triad) the highest is drawn, of a precision's theoretical peaks too.
    """
    # Slopes are cut at the highest flat line, flat lines begin at the steepest slope: both are needed first.
    some = of_node(ceilings)
    theory = is_theory_alone(some)
    can_bind = {id(c) for c in some if theory or counts(c)}
    slopes = _highest((c.level, c.provenance == Provenance.ANALYTIC, c) for c in some if _slope(c))
    flats = _compute_to_draw([c for c in some if c.kind == "compute"], precisions, can_bind)
    top = _top(flats, can_bind)
    steepest = _top(slopes, can_bind)
    roof = set()
    if precisions:
        roof = {id(c) for c in _highest((c.precision, "", c) for c in flats if id(c) in can_bind)}
    drawn = []
    for c in slopes:
        end = max(top / c.value, 2 * LOWEST_INTENSITY) if top else HIGHEST_INTENSITY
        span = [LOWEST_INTENSITY, end]
        drawn.append(_line(c, span, [i * c.value for i in span], id(c) in can_bind and c.level in binding))
    for c in flats:
        begin = c.value / steepest if steepest else LOWEST_INTENSITY
        end = max(HIGHEST_INTENSITY, 2 * begin)
        drawn.append(_line(c, [begin, end], [c.value, c.value], id(c) in roof))
    return drawn


def _top(ceilings: Sequence[Ceiling], can_bind: Collection[int]) -> float | None:
    """The highest that can bind, else the highest. can_bind: ids."""
    binding = [c for c in ceilings if id(c) in can_bind]
    return max((c.value for c in binding or ceilings), default=None)


def _compute_to_draw(
    compute: Sequence[Ceiling], precisions: Collection[str], can_bind: Collection[int]
) -> list[Ceiling]:
    """Compute ceilings to be drawn: of each precision one per width, the highest also without FMA, and one
    theoretical. can_bind: ids."""
    # From the same ceilings three choices, drawn in this order; each needs the one before.
    if not precisions:
        return _highest((c.precision, "", c) for c in compute if id(c) in can_bind)
    wanted = {with_ceilings(compute, one) for one in precisions}
    mine = [c for c in compute if c.precision in wanted]
    measured = [c for c in mine if id(c) in can_bind]
    fused = [c for c in measured if not _without_fma(c)]
    widths = _highest((c.precision, (c.width, c.operation == "amx"), c) for c in (fused or measured))
    tops = {f"{c.name}.{WITHOUT_FMA}" for c in _highest((c.precision, "", c) for c in widths)}
    inner = [c for c in measured if c.name in tops]
    theory = _highest((c.precision, "", c) for c in mine if id(c) not in can_bind)
    return [*widths, *inner, *theory]


def _highest(keyed: Iterable[tuple[object, object, Ceiling]]) -> list[Ceiling]:
    """The highest ceiling of each pair of keys, in the order of the keys' first."""
    best: dict[tuple[object, object], Ceiling] = {}
    for one, other, ceiling in keyed:
        if (one, other) not in best or ceiling.value > best[one, other].value:
            best[one, other] = ceiling
    return list(best.values())


def _line(c: Ceiling, intensity: list[float], flops: list[float], binding: bool) -> RoofLine:
    provenance = c.provenance or Provenance.MEASURED
    level = c.level if _slope(c) else ""
    return RoofLine(
        c.name, label(c), c.kind, intensity, flops, binding, level, c.precision, c.width, provenance
    )


def label(c: Ceiling) -> str:
    """A ceiling for people: "DRAM triad 100.0 GB/s", "FP32 512-bit without FMA 2000.0 GFLOP/s"."""
    if c.kind == "network":
        way = "from" if c.operation == REVERSE else "to"
        return texts.network_ceiling(c.name.partition(".")[2], way, c.peer, c.value)
    if c.kind == "memory":
        found = texts.memory_ceiling(c.level, c.operation or c.name.partition(".")[2], c.value)
    else:
        found = texts.compute_ceiling(c.precision, _width_and_operation(c), c.value)
    return texts.theoretical(found) if c.provenance == Provenance.ANALYTIC else found


def _width_and_operation(c: Ceiling) -> list[str]:
    """Vector width, or unit, and operation of a compute ceiling."""
    if c.device or not c.width:
        return [] if c.operation in ("", "fma") else [c.operation]
    if c.operation == "amx" or c.name.endswith(".amx"):
        return ["AMX"]
    how = ["scalar" if c.width <= 64 else f"{c.width}-bit"]
    if _without_fma(c):
        how.append("without FMA")
    if c.operation == "dot":
        how.append("dot")
    return how


def _without_fma(c: Ceiling) -> bool:
    return c.operation == WITHOUT_FMA or c.name.endswith(WITHOUT_FMA)


def _slope(c: Ceiling) -> bool:
    return c.kind in ("memory", "network")


def _value(ceiling: Ceiling) -> float:
    return ceiling.value
