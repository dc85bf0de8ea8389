"""Bytes that ranks move, by level of the memory and over the network; FLOPs against memory accesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roofline.answers.values import Provenance, Scope, Value, value

from ...sentences import breakdowns as texts
from ...sentences import reasons
from ...sentences.origins import TENSOR_BYTES, UPDATED_BYTES
from ..evidence import KernelEvidence, RankEvidence, reason_of
from .compose import Column, Part, apart, of_counters, per_step, profiled, sampled, watched
from .rates import coverage_of
from .shares import is_bound, on_gpu

CACHE_LINE = 64  # bytes that one access to DRAM moves
SECTOR = 32  # bytes that one access to a GPU's memory moves


def traffic(ranks: Sequence[RankEvidence], scope: Scope) -> list[Part]:
    """Bytes a step at each level of the memory and of the network. What one level moves the next may not."""
    parts = {}
    for name in ("l1", "l2"):
        if any(r.kernels is not None and name in r.kernels.levels for r in ranks):
            parts[name] = profiled(ranks, scope, _level(name), texts.NOT_OF_EVERY_KERNEL)
    if any(map(on_gpu, ranks)):
        parts["hbm"] = main_memory(ranks, scope)
        of_cpus = _of_node(ranks, scope)
        if of_cpus.value is not None:
            parts["dram"] = of_cpus
    else:
        parts["dram"] = main_memory(ranks, scope)
    parts["minimum"] = least(ranks, scope)
    no_tcp = reason_of(ranks, "tcp", reasons.NO_CONNECTIONS)
    for name, counters in (
        ("network sent", [r.sent for r in ranks if r.sent is not None]),
        ("network received", [r.received for r in ranks if r.received is not None]),
    ):
        number, share = of_counters(counters, ranks), coverage_of(counters, ranks)
        parts[name] = value(number, "byte", Provenance.MEASURED, scope, share, missing=no_tcp)
    updates = all(r.kernels is not None and r.kernels.rule for r in ranks)
    what = UPDATED_BYTES if updates else TENSOR_BYTES
    return apart(parts, {"minimum": what} if parts["minimum"].value is not None else {})


def _level(name: str) -> Column:
    return lambda k: k.levels.get(name)


def main_memory(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """Bytes a step of DRAM, or of a GPU's memory: by a profiler, else, of CPUs, their share of the node's."""
    gpu = any(map(on_gpu, ranks))
    by_kernels = profiled(
        ranks, scope, lambda k: k.dram, reasons.NO_HBM if gpu else texts.NO_PROFILED_TRAFFIC
    )
    return by_kernels if gpu or by_kernels.value is not None else _of_node(ranks, scope)


def _of_node(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """Bytes a step of the DRAM of their nodes."""
    known = [r for r in ranks if r.dram is not None]
    counters = [r.dram for r in known if r.dram is not None]
    how = texts.CACHE_MISSES if any(r.dram_is_bound for r in known) else texts.SHARE_OF_NODE
    missing = reason_of(ranks, "dram", texts.NO_DRAM_SOURCE)
    number, share = of_counters(counters, ranks), coverage_of(counters, ranks)
    return value(number, "byte", Provenance.ESTIMATED, scope, share, how, missing)


def least(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """Bytes a step of the tensors of every kernel."""
    kernels = [(r, r.kernels) for r in ranks if r.kernels is not None and r.kernels.has_bytes]
    number, share = per_step(kernels, lambda k: k.bytes), watched(kernels)
    missing = reason_of(ranks, "flops", reasons.NO_KERNELS)
    origin, how = sampled([k for _, k in kernels])
    return value(number, "byte", origin, scope, share, how, missing)


# -- FLOPs against accesses -------------------------------------------------------------------------------


class _Moved(NamedTuple):
    """Bytes a step, and FLOPs per byte of those ranks and kernels of which both are known."""

    bytes: Value
    intensity: float | None
    words: str


def work_and_memory(ranks: Sequence[RankEvidence], scope: Scope) -> list[Part]:
    """NUM_FLOP and MEM_ACC of a step. An access moves a cache line of 64 bytes (of a GPU 32): counted traffic
    over that, else the bytes of tensors."""
    flops, moved = _flops(ranks, scope), _moved(ranks, scope)
    line = SECTOR if any(map(on_gpu, ranks)) else CACHE_LINE
    number = moved.bytes.value
    if number is None:
        return apart({"FLOPs": flops, "memory accesses": moved.bytes._replace(unit="1")})
    accesses = moved.bytes._replace(unit="1", value=number / line)
    words = texts.accesses(moved.words, line, moved.intensity)
    return apart({"FLOPs": flops, "memory accesses": accesses}, {"memory accesses": words})


def _flops(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """FLOPs a step: of recorded kernels, else those that hardware counted."""
    kernels, how = _with_flops(ranks), ""
    if kernels:
        origin, how = sampled([k for _, k in kernels])
        origin = Provenance.MEASURED if any(k.counted for _, k in kernels) else origin
        number, share = per_step(kernels, lambda k: k.flops), watched(kernels)
    else:
        counted = [r.counted_flops for r in ranks if r.counted_flops is not None]
        origin = Provenance.ESTIMATED if any(k.estimated for k in counted) else Provenance.MEASURED
        counters = [k.counter for k in counted]
        number, share = of_counters(counters, ranks), coverage_of(counters, ranks)
    missing = reason_of(ranks, "flops", reasons.NO_KERNELS_NO_COUNTER)
    return value(number, "FLOP", origin, scope, share, how, missing)


def _moved(ranks: Sequence[RankEvidence], scope: Scope) -> _Moved:
    """What was counted of main memory, else the bytes of tensors. Cache misses leave out what was prefetched:
    they count only where they are more than these."""
    counted, tensors = main_memory(ranks, scope), least(ranks, scope)
    few = is_bound(ranks) and (tensors.value or 0.0) > (counted.value or 0.0)
    if counted.value is None or few:
        sized = [(r, k) for r, k in _with_flops(ranks) if k.has_bytes]
        return _Moved(tensors, _ratio(per_step(sized, lambda k: k.sized_flops), tensors), texts.OF_TENSORS)
    recorded = {r.key for r, _ in _with_flops(ranks)}
    both = [r for r in ranks if (r.key in recorded if recorded else r.counted_flops is not None)]
    both = [r for r in both if main_memory([r], scope).value is not None]
    return _Moved(counted, _ratio(_flops(both, scope).value, main_memory(both, scope)), texts.COUNTED_TRAFFIC)


def _with_flops(ranks: Sequence[RankEvidence]) -> list[tuple[RankEvidence, KernelEvidence]]:
    return [(r, r.kernels) for r in ranks if r.kernels is not None and r.kernels.has_flops]


def _ratio(flops: float | None, moved: Value) -> float | None:
    return flops / moved.value if flops is not None and moved.value else None
