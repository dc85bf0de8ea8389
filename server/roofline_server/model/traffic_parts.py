"""Bytes that ranks move, by level of the memory and over the network; FLOPs against memory accesses."""

from __future__ import annotations

from collections.abc import Sequence

from .compose import Column, Part, apart, of_counters, per_step, profiled, watched
from .evidence import RankEvidence, reason_of
from .rates import coverage_of
from .values import Provenance, Scope, Value, value
from .wording import many

CACHE_LINE = 64  # bytes that one access to DRAM moves
SECTOR = 32  # bytes that one access to a GPU's memory moves


def traffic(ranks: Sequence[RankEvidence], scope: Scope) -> list[Part]:
    """Bytes a step at each level of the memory and of the network. What one level moves the next may not."""
    on_gpu = any(r.kernels is not None and r.kernels.on_gpu for r in ranks)
    found = {}
    for name in ("l1", "l2"):
        if any(r.kernels is not None and name in r.kernels.levels for r in ranks):
            missing = "no profiler counted it of every kernel"
            found[name] = profiled(ranks, scope, _level(name), missing)
    found["hbm" if on_gpu else "dram"] = main_memory(ranks, scope)
    found["minimum"] = least(ranks, scope)
    no_tcp = reason_of(ranks, "tcp", "its connections were not counted")
    for name, counters in (
        ("network sent", [r.sent for r in ranks if r.sent is not None]),
        ("network received", [r.received for r in ranks if r.received is not None]),
    ):
        share = coverage_of(counters, ranks)
        number = of_counters(counters, ranks)
        found[name] = value(number, "byte", Provenance.MEASURED, scope, share, missing=no_tcp)
    why = "each tensor touched once: real traffic is more"
    return apart(found, {"minimum": why} if found["minimum"].value is not None else {})


def _level(name: str) -> Column:
    return lambda k: k.levels.get(name)


def main_memory(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """Bytes a step of DRAM, or of a GPU's memory: by a profiler, else the rank's share of its node's."""
    by_kernels = profiled(ranks, scope, lambda k: k.dram, "no profiler counted the traffic of its kernels")
    if by_kernels.value is not None:
        return by_kernels
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
    """Bytes a step if each tensor were touched once."""
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


def work_and_memory(ranks: Sequence[RankEvidence], scope: Scope) -> list[Part]:
    """NUM_FLOP and MEM_ACC of a step. An access moves a cache line of 64 bytes (of a GPU 32): counted traffic
    over that, else the least traffic, and then there are no fewer."""
    kernels = [(r, r.kernels) for r in ranks if r.kernels is not None and r.kernels.has_flops]
    on_gpu = any(k.on_gpu for _, k in kernels)
    if kernels:
        origin = Provenance.MEASURED if on_gpu else Provenance.ANALYTIC
        number, share = per_step(kernels, lambda k: k.flops), watched(kernels)
    else:
        counted = [r.counted_flops for r in ranks if r.counted_flops is not None]
        origin = Provenance.ESTIMATED if any(k.estimated for k in counted) else Provenance.MEASURED
        counters = [k.counter for k in counted]
        number, share = of_counters(counters, ranks), coverage_of(counters, ranks)
    missing = reason_of(ranks, "flops", "no kernels were recorded and no hardware counter counted FLOPs")
    flops = value(number, "FLOP", origin, scope, share, missing=missing)
    moved, line = main_memory(ranks, scope), SECTOR if on_gpu else CACHE_LINE
    words = f"counted traffic over {line} bytes"
    if moved.value is None:
        moved, words = least(ranks, scope), f"least traffic over {line} bytes: no fewer than this"
    accesses = moved._replace(unit="1", value=None if moved.value is None else moved.value / line)
    if flops.value is not None and accesses.value:
        words += f"; {many(flops.value / accesses.value, 'FLOP')} an access"
    told = {"memory accesses": words} if accesses.value is not None else {}
    return apart({"FLOPs": flops, "memory accesses": accesses}, told)
