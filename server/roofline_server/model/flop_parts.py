"""FLOPs of ranks by precision and vector width, and the share of them that could use wider vectors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value

from .compose import Column, Part, absent, of_counters, parted, per_step, watched
from .evidence import RankEvidence, reason_of
from .rates import coverage_of
from .roofline import title

NOT_TOLD = "not told"
MATRIX_UNIT, UNKNOWN = 0, -1  # in the place of bits
# What oneDNN calls an instruction set in the name of an implementation -> bits of its widest vectors.
INSTRUCTION_SETS = (
    (re.compile(r"amx"), MATRIX_UNIT),
    (re.compile(r"avx512|avx10_\d_512"), 512),
    (re.compile(r"avx"), 256),
    (re.compile(r"sse|asimd|neon"), 128),
)
SCALABLE = re.compile(r"sve_(\d+)")


class Executed(NamedTuple):
    """FLOPs of one kind of kernel, a step of one rank."""

    implementation: str
    precision: str
    flops: float


def by_width(
    ranks: Sequence[RankEvidence], scope: Scope, executed: Iterable[Executed], widest: Mapping[str, int]
) -> list[Part]:
    """FLOPs by precision and vector width, narrow before wide: as counters counted them, else by what the
    kernels' implementations are called ("jit:avx512_core": at most 512 bits), which is an estimate.

    widest: precision -> bits of the widest vectors that a ceiling of their machines has.
    """
    counted = _counted(ranks)
    if counted:
        return _parts(counted, _value_of(ranks, scope), widest)
    flops: dict[tuple[str, int], float] = {}
    for kind in executed:
        key = kind.precision, width_of(kind.implementation)
        flops[key] = flops.get(key, 0.0) + kind.flops
    how = "by the names of the kernels' implementations: at most so wide"
    if flops:
        return _parts(flops, Value(None, "FLOP", Provenance.ESTIMATED, scope, reason=how), widest)
    if any(r.kernels is not None and r.kernels.on_gpu for r in ranks):
        return [absent("all", "FLOP", "its kernels ran on a GPU, which has no vectors of a width")]
    return [absent("all", "FLOP", _why_none(ranks))]


def _why_none(ranks: Sequence[RankEvidence]) -> str:
    return reason_of(ranks, "flops", "no kernels were recorded and no hardware counter counted FLOPs")


def _counted(ranks: Sequence[RankEvidence]) -> dict[tuple[str, int], float]:
    """FLOPs a step by precision and bits, as hardware counters counted them."""
    known = [r.counted_flops for r in ranks if r.counted_flops is not None]
    per_rank = of_counters([k.counter for k in known], ranks)
    whole = sum(sum(k.by.values()) for k in known)
    if per_rank is None or not whole:
        return {}
    flops: dict[tuple[str, int], float] = {}
    for event, count in (event for k in known for event in k.by.items()):
        precision, _, width = event.partition(".")
        key = "" if precision == "all" else precision, _bits(width, precision)
        flops[key] = flops.get(key, 0.0) + count / whole * per_rank
    return flops


def _value_of(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """What is to be said of numbers that hardware counted; without a number."""
    known = [r.counted_flops for r in ranks if r.counted_flops is not None]
    origin = Provenance.ESTIMATED if any(k.estimated for k in known) else Provenance.MEASURED
    amx = any(k.amx_busy for k in known)
    how = "the matrix unit (AMX) ran, and no event counts its FLOPs" if amx else ""
    return Value(None, "FLOP", origin, scope, coverage_of([k.counter for k in known], ranks), how)


def width_of(implementation: str) -> int:
    """Bits of the widest vectors that an implementation can use, by its name; MATRIX_UNIT, UNKNOWN."""
    for instructions, bits in INSTRUCTION_SETS:
        if instructions.search(implementation):
            return bits
    found = SCALABLE.search(implementation)
    return int(found[1]) if found else UNKNOWN


def _bits(width: str, precision: str) -> int:
    if width == "scalar":
        return int(re.sub(r"\D", "", precision) or 64)
    return int(width) if width.isdecimal() else UNKNOWN


def _name(precision: str, bits: int) -> str:
    how = {MATRIX_UNIT: "AMX", UNKNOWN: f"width {NOT_TOLD}"}.get(bits, f"{bits}-bit")
    return f"{precision} {'scalar' if 0 < bits <= 64 else how}".strip()


def _parts(flops: Mapping[tuple[str, int], float], like: Value, widest: Mapping[str, int]) -> list[Part]:
    """like: what is to be said of each number."""
    ordered = sorted((key for key, count in flops.items() if count), key=_breadth)
    if not ordered:
        return [absent("all", "FLOP", "its kernels did no FLOPs")]
    narrow = {key for key in ordered if 0 < key[1] < widest.get(key[0], 0)}
    share = sum(flops[key] for key in narrow) / (sum(flops.values()) or 1.0)
    words = {
        _name(
            *key
        ): f"these CPUs have {widest[key[0]]}-bit vectors in {title(key[0])}: in all {share:.0%} of the "
        "FLOPs could use wider ones"
        for key in narrow
    }
    return parted({_name(*key): like._replace(value=flops[key]) for key in ordered}, words)


def _breadth(key: tuple[str, int]) -> tuple[str, int]:
    """By precision, narrow before wide; the matrix unit is wider than any vector."""
    precision, bits = key
    return precision, {MATRIX_UNIT: 1 << 16, UNKNOWN: 1 << 17}.get(bits, bits)


def by_precision(ranks: Sequence[RankEvidence], scope: Scope) -> list[Part]:
    """FLOPs by precision: of the recorded kernels, else as hardware counted them."""
    kernels = [(r, r.kernels) for r in ranks if r.kernels is not None and r.kernels.has_flops]
    if not kernels:
        return _by_precision_counted(ranks, scope)
    whole = per_step(kernels, lambda k: k.flops)
    if whole is None:
        return [absent("all", "FLOP", "no step was watched from begin to end")]
    flops = {}
    for name in sorted({name for _, k in kernels for name in k.by_precision}):
        flops[name] = per_step(kernels, _of_precision(name)) or 0.0
    rest = whole - sum(flops.values())
    if abs(rest) > 1e-9 * abs(whole):
        flops[NOT_TOLD] = rest
    origin = Provenance.MEASURED if any(k.on_gpu for _, k in kernels) else Provenance.ANALYTIC
    share = watched(kernels)
    found = {name: value(count, "FLOP", origin, scope, share) for name, count in flops.items() if count}
    return parted(found) if found else [absent("all", "FLOP", "its kernels did no FLOPs")]


def _of_precision(name: str) -> Column:
    return lambda k: k.by_precision.get(name, np.zeros(len(k.flops), np.int64))


def _by_precision_counted(ranks: Sequence[RankEvidence], scope: Scope) -> list[Part]:
    by: dict[str, float] = {}
    for (precision, _), count in _counted(ranks).items():
        by[precision or NOT_TOLD] = by.get(precision or NOT_TOLD, 0.0) + count
    like = _value_of(ranks, scope)
    found = {name: like._replace(value=count) for name, count in sorted(by.items())}
    return parted(found) if found else [absent("all", "FLOP", _why_none(ranks))]
