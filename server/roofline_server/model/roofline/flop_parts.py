"""FLOPs of ranks by precision and vector width, and the share of them that could use wider vectors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.phrases import NOT_KNOWN

from ...sentences import breakdowns as texts
from ...sentences.reasons import NO_KERNELS_NO_COUNTER, NOT_WATCHED
from ...sentences.wording import joined
from ..evidence import RankEvidence, reason_of
from .compose import Column, Part, absent, of_counters, parted, per_step, sampled, watched
from .rates import coverage_of
from .work import by_hardware

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
        # Wider vectors of CPUs help nobody whose work is that of a GPU.
        of_work = any(r.counted_flops is not None for r in ranks)
        return _parts(counted, _counted_value(ranks, scope), widest if of_work else {})
    flops: dict[tuple[str, int], float] = {}
    for kind in executed:
        key = kind.precision, width_of(kind.implementation)
        flops[key] = flops.get(key, 0.0) + kind.flops
    if flops:
        like = Value(None, "FLOP", Provenance.ESTIMATED, scope, reason=texts.BY_IMPLEMENTATION)
        return _parts(flops, like, widest)
    if any(r.kernels is not None and r.kernels.on_gpu for r in ranks):
        return [absent("all", "FLOP", texts.NO_WIDTHS_ON_GPU)]
    return [absent("all", "FLOP", reason_of(ranks, "flops", NO_KERNELS_NO_COUNTER))]


def by_precision(ranks: Sequence[RankEvidence], scope: Scope) -> list[Part]:
    """FLOPs by precision: of the recorded kernels, else as hardware counted them."""
    kernels = [(r, r.kernels) for r in ranks if r.kernels is not None and r.kernels.has_flops]
    if not kernels:
        return _counted_by_precision(ranks, scope)
    whole = per_step(kernels, lambda k: k.flops)
    if whole is None:
        return [absent("all", "FLOP", NOT_WATCHED)]
    flops = {}
    for name in sorted({name for _, k in kernels for name in k.by_precision}):
        flops[name] = per_step(kernels, _in_precision(name)) or 0.0
    rest = whole - sum(flops.values())
    if abs(rest) > 1e-9 * abs(whole):
        flops[NOT_KNOWN] = rest
    origin, how = sampled([k for _, k in kernels])
    if any(k.counted for _, k in kernels):
        origin = Provenance.MEASURED
    share = watched(kernels)
    found = {name: value(count, "FLOP", origin, scope, share, how) for name, count in flops.items() if count}
    return parted(found) if found else [absent("all", "FLOP", texts.NO_FLOPS)]


def _in_precision(name: str) -> Column:
    return lambda k: k.by_precision.get(name, np.zeros(len(k.flops), np.int64))


def width_of(implementation: str) -> int:
    """Bits of the widest vectors that an implementation can use, by its name; MATRIX_UNIT, UNKNOWN."""
    for instructions, bits in INSTRUCTION_SETS:
        if instructions.search(implementation):
            return bits
    found = SCALABLE.search(implementation)
    return int(found[1]) if found else UNKNOWN


# -- as hardware counted them -------------------------------------------------------------------------------


def _counted(ranks: Sequence[RankEvidence]) -> dict[tuple[str, int], float]:
    """FLOPs a step by precision and bits, as hardware counters counted them."""
    _, known, _ = by_hardware(ranks)
    per_rank = of_counters([k.counter for k in known], ranks)
    whole = sum(sum(k.by.values()) for k in known)
    if per_rank is None or not whole:
        return {}
    flops: dict[tuple[str, int], float] = {}
    for counted in known:
        for event, count in counted.by.items():
            key = _precision_and_bits(event)
            flops[key] = flops.get(key, 0.0) + count / whole * per_rank
    return flops


def _precision_and_bits(event: str) -> tuple[str, int]:
    """Of "f32.256", "f64.scalar", "all.all"."""
    precision, _, width = event.partition(".")
    bits = UNKNOWN
    if width == "scalar":
        bits = int(re.sub(r"\D", "", precision) or 64)
    elif width.isdecimal():
        bits = int(width)
    return "" if precision == "all" else precision, bits


def _counted_value(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """What holds for every number that hardware counted; without a number."""
    _, known, whose = by_hardware(ranks)
    origin = Provenance.ESTIMATED if any(k.estimated for k in known) else Provenance.MEASURED
    how = texts.NO_AMX if any(k.amx_busy for k in known) else ""
    share = coverage_of([k.counter for k in known], ranks)
    return Value(None, "FLOP", origin, scope, share, joined(whose, how))


def _counted_by_precision(ranks: Sequence[RankEvidence], scope: Scope) -> list[Part]:
    flops: dict[str, float] = {}
    for (precision, _), count in _counted(ranks).items():
        name = precision or NOT_KNOWN
        flops[name] = flops.get(name, 0.0) + count
    if not flops:
        return [absent("all", "FLOP", reason_of(ranks, "flops", NO_KERNELS_NO_COUNTER))]
    like = _counted_value(ranks, scope)
    return parted({name: like._replace(value=count) for name, count in sorted(flops.items())})


# -- parts --------------------------------------------------------------------------------------------------


def _parts(flops: Mapping[tuple[str, int], float], like: Value, widest: Mapping[str, int]) -> list[Part]:
    """flops: by precision and bits. like: what holds for each number."""
    ordered = sorted((key for key, count in flops.items() if count), key=_breadth)
    if not ordered:
        return [absent("all", "FLOP", texts.NO_FLOPS)]
    narrow = [key for key in ordered if 0 < key[1] < widest.get(key[0], 0)]
    share = sum(flops[key] for key in narrow) / (sum(flops.values()) or 1.0)
    words = {}
    for precision, bits in narrow:
        words[_name(precision, bits)] = texts.wider_vectors(widest[precision], precision, share)
    return parted({_name(*key): like._replace(value=flops[key]) for key in ordered}, words)


def _breadth(key: tuple[str, int]) -> tuple[str, int]:
    """By precision, narrow before wide; the matrix unit is wider than any vector."""
    precision, bits = key
    return precision, {MATRIX_UNIT: 1 << 16, UNKNOWN: 1 << 17}.get(bits, bits)


def _name(precision: str, bits: int) -> str:
    if bits == MATRIX_UNIT:
        return texts.width(precision, "AMX")
    if bits == UNKNOWN:
        return f"{precision}, width {NOT_KNOWN}".removeprefix(", ")
    return texts.width(precision, "scalar" if bits <= 64 else f"{bits}-bit")
