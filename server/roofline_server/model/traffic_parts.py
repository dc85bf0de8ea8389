"""Bytes that ranks move, by level of the memory and over the network; FLOPs against memory accesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roofline.answers.values import Provenance, Scope, Value, value

from .compose import Column, Part, apart, of_counters, per_step, profiled, watched
from .evidence import KernelEvidence, RankEvidence, reason_of
from .rates import coverage_of
from .roofline import TENSOR_BYTES
from .shares import NO_HBM, is_bound, on_gpu
from .wording import many

CACHE_LINE = 64  # bytes that one access to DRAM moves
SECTOR = 32  # bytes that one access to a GPU's memory moves


def traffic(ranks: Sequence[RankEvidence], scope: Scope) -> list[Part]:
    """Bytes a step at each level of the memory and of the network. What one level moves the next may not."""
    found = {}
    for name in ("l1", "l2"):
        if any(r.kernels is not None and name in r.kernels.levels for r in ranks):
            missing = "no profiler counted it of every kernel"
            found[name] = profiled(ranks, scope, _level(name), missing)
    if any(map(on_gpu, ranks)):
        found["hbm"] = main_memory(ranks, scope)
        of_cpus = _of_node(ranks, scope)
        found |= {"dram": of_cpus} if of_cpus.value is not None else {}
    else:
        found["dram"] = main_memory(ranks, scope)
    found["minimum"] = least(ranks, scope)
    no_tcp = reason_of(ranks, "tcp", "its connections were not counted")
    for name, counters in (
        ("network sent", [r.sent for r in ranks if r.sent is not None]),
        ("network received", [r.received for r in ranks if r.received is not None]),
    ):
        share = coverage_of(counters, ranks)
        number = of_counters(counters, ranks)
        found[name] = value(number, "byte", Provenance.MEASURED, scope, share, missing=no_tcp)
    why = TENSOR_BYTES
    return apart(found, {"minimum": why} if found["minimum"].value is not None else {})


def _level(name: str) -> Column:
    return lambda k: k.levels.get(name)


def main_memory(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """Bytes a step of DRAM, or of a GPU's memory: by a profiler, else, of CPUs, their share of the node's."""
    missing = NO_HBM if any(map(on_gpu, ranks)) else "no profiler counted the traffic of its kernels"
    by_kernels = profiled(ranks, scope, lambda k: k.dram, missing)
    if by_kernels.value is not None or any(map(on_gpu, ranks)):
        return by_kernels
    return _of_node(ranks, scope)


def _of_node(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """Bytes a step of the DRAM of their nodes."""
    known = [r for r in ranks if r.dram is not None]
    bound = any(r.dram_is_bound for r in known)
    how = "cache misses of 64 bytes: no less than this" if bound else "its share of the node's, by CPU time"
    counters = [r.dram for r in known if r.dram is not None]
    missing = reason_of(ranks, "dram", "nothing reads DRAM traffic on its node")
    return value(
        of_counters(counters, ranks),
        "byte",
        Provenance.ESTIMATED,
        scope,
        coverage_of(counters, ranks),
        how,
        missing,
    )


def least(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """Bytes a step of the tensors of every kernel."""
    kernels = [(r, r.kernels) for r in ranks if r.kernels is not None and r.kernels.has_bytes]
    missing = reason_of(ranks, "flops", "no kernels were recorded")
    return value(
        per_step(kernels, lambda k: k.bytes),
        "byte",
        Provenance.ANALYTIC,
        scope,
        watched(kernels),
        missing=missing,
    )


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
    accesses = moved.bytes._replace(unit="1", value=None if number is None else number / line)
    words = f"{moved.words} over {line} bytes"
    if moved.intensity is not None:
        words += f"; {many(moved.intensity * line, 'FLOP')} an access"
    told = {"memory accesses": words} if number is not None else {}
    return apart({"FLOPs": flops, "memory accesses": accesses}, told)


def _flops(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """FLOPs a step: of recorded kernels, else those that hardware counted."""
    kernels = _with_flops(ranks)
    if kernels:
        origin = Provenance.MEASURED if any(k.on_gpu for _, k in kernels) else Provenance.ANALYTIC
        number, share = per_step(kernels, lambda k: k.flops), watched(kernels)
    else:
        counted = [r.counted_flops for r in ranks if r.counted_flops is not None]
        origin = Provenance.ESTIMATED if any(k.estimated for k in counted) else Provenance.MEASURED
        counters = [k.counter for k in counted]
        number, share = of_counters(counters, ranks), coverage_of(counters, ranks)
    missing = reason_of(ranks, "flops", "no kernels were recorded and no hardware counter counted FLOPs")
    return value(number, "FLOP", origin, scope, share, missing=missing)


def _moved(ranks: Sequence[RankEvidence], scope: Scope) -> _Moved:
    """What was counted of main memory, else the bytes of tensors. Cache misses leave out what was prefetched:
    they count only where they are more than these."""
    counted, tensors = main_memory(ranks, scope), least(ranks, scope)
    few = is_bound(ranks) and (tensors.value or 0.0) > (counted.value or 0.0)
    if counted.value is None or few:
        sized = [(r, k) for r, k in _with_flops(ranks) if k.has_bytes]
        return _Moved(tensors, _ratio(per_step(sized, lambda k: k.sized_flops), tensors), "bytes of tensors")
    recorded = {r.key for r, _ in _with_flops(ranks)}
    both = [r for r in ranks if (r.key in recorded if recorded else r.counted_flops is not None)]
    both = [r for r in both if main_memory([r], scope).value is not None]
    return _Moved(counted, _ratio(_flops(both, scope).value, main_memory(both, scope)), "counted traffic")


def _with_flops(ranks: Sequence[RankEvidence]) -> list[tuple[RankEvidence, KernelEvidence]]:
    return [(r, r.kernels) for r in ranks if r.kernels is not None and r.kernels.has_flops]


def _ratio(flops: float | None, moved: Value) -> float | None:
    return flops / moved.value if flops is not None and moved.value else None
