"""DRAM traffic and energy: a rank's share of its node's, or what a profiler counted of its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..records import ABSENT
from .evidence import RankEvidence, reason_of
from .rates import counter_rate, median, over_counted, per_window, pool, rate, ratio, total_of
from .values import Provenance, Scope, Value, value
from .work import mean_flops

_MEASURED = Provenance.MEASURED


def of_nodes(ranks: Sequence[RankEvidence], scope: Scope, values: Mapping[str, Value]) -> dict[str, Value]:
    """Values made of counters that speak for sockets: each rank's part of them, by CPU time."""
    no_dram = reason_of(ranks, "dram", "no DRAM counter was read")
    no_energy = reason_of(ranks, "energy", "no energy counter was read")
    dram = [r.dram for r in ranks if r.dram is not None]
    energy = [r.energy for r in ranks if r.energy is not None]

    by_cpu = "the node's, shared out by CPU time"
    energy_of = "; ".join(dict.fromkeys(r.energy_of or by_cpu for r in ranks if r.energy is not None))
    bound = "a lower bound: misses of the last cache, 64 bytes each, without prefetches and write-backs"
    how = bound if any(r.dram_is_bound for r in ranks) else by_cpu

    def shared(number: float | None, unit: str, missing: str, why: str = by_cpu) -> Value:
        return value(number, unit, Provenance.ESTIMATED, scope, reason=why, missing=missing)

    stepping = any(len(r.steps.step) for r in ranks)
    moved, used = (per_window(c, ranks, 1) if stepping else None for c in (dram, energy))
    work = mean_flops(ranks, values)
    no_work = work.reason or "no FLOPs were counted"
    flops = work.value
    return {
        "bytes_per_step.dram": shared(moved, "byte", no_dram, how),
        "dram_bytes_per_second": shared(counter_rate(dram, 1), "byte/s", no_dram, how),
        "intensity.dram": shared(
            flops / moved if flops is not None and moved else None,
            "FLOP/byte",
            no_dram if moved is None else no_work,
            "over a lower bound of the bytes, so an upper bound" if how is bound else by_cpu,
        ),
        "energy_per_step": shared(used, "J", no_energy, energy_of),
        "power": shared(counter_rate(energy, 1), "W", no_energy, energy_of),
        "flops_per_joule": shared(
            flops / used if flops is not None and used else None,
            "FLOP/J",
            no_energy if used is None else no_work,
            energy_of,
        ),
    } | _profiled(ranks, scope)


def _profiled(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """DRAM traffic where a profiler counted it, kernel by kernel, on every rank; else nothing."""
    known = [r.kernels for r in ranks if r.kernels is not None]
    full = [k for k in known if k.complete.any() and not np.any(k.dram[k.complete] == ABSENT)]
    if not full or len(full) < len(known):
        return {}
    why = "as the profiler counted it, kernel by kernel"
    steps = any(len(r.steps.step) for r in ranks)
    moved = pool([k.dram[k.complete] for k in full])
    flops = pool([k.flops[k.complete] for k in full])

    def measured(number: float | None, unit: str, missing: str, origin: Provenance = _MEASURED) -> Value:
        return value(number, unit, origin, scope, reason=why, missing=missing)

    return {
        "bytes_per_step.dram": measured(median(moved) if steps else None, "byte", "no steps"),
        "dram_bytes_per_second": measured(rate(full, "dram"), "byte/s", "no time"),
        "intensity.dram": measured(
            ratio(total_of(flops), total_of(moved)), "FLOP/byte", "no DRAM traffic", over_counted(full)
        ),
    }
