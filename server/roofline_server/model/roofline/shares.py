"""DRAM traffic and energy: a rank's share of its node's, or what a profiler counted of its kernels.

What is divided by them are the FLOPs of the same ranks, done where the bytes and joules were: a GPU's FLOPs
are never compared with the traffic or the energy of the node's CPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value

from ...records import ABSENT
from ...sentences import origins, reasons
from ..evidence import CounterEvidence, KernelEvidence, RankEvidence, reason_of, total_of
from .rates import (
    Counter,
    counted_of,
    counter_rate,
    mean,
    median,
    over_counted,
    per_window,
    pool,
    rate,
    ratio,
)

_MEASURED = Provenance.MEASURED


class Over(NamedTuple):
    """FLOPs over what a counter counted, of the ranks of which both are known. number None: `why`.

    which: which ranks these are, where not all."""

    number: float | None
    which: str = ""
    why: str = ""


def of_nodes(ranks: Sequence[RankEvidence], scope: Scope, values: Mapping[str, Value]) -> dict[str, Value]:
    """Values made of counters that speak for sockets: each rank's part of them, by CPU time. values: of
    `work` and `counted_flops` for these ranks."""
    return (
        _dram_values(ranks, scope, values)
        | _energy_values(ranks, scope, values)
        | _profiled_dram_values(ranks, scope)
    )


def _dram_values(
    ranks: Sequence[RankEvidence], scope: Scope, values: Mapping[str, Value]
) -> dict[str, Value]:
    counters = [r.dram for r in ranks if r.dram is not None]
    seen = counted_of(counters, ranks)
    missing = reason_of(ranks, "dram", reasons.NO_DRAM_COUNTER)
    moved = per_window(counters, ranks, 1) if _stepping(ranks) else None
    how, over_how = origins.BY_CPU, origins.BY_CPU
    if any(r.dram_is_bound for r in ranks):
        how, over_how = origins.LOWER_BOUND, origins.OVER_LOWER_BOUND
    found = Over(None, why=reasons.NO_HBM)
    if not any(on_gpu(r) for r in ranks):
        found = over(ranks, values, lambda r: r.dram)
    why = missing if moved is None else found.why
    per_second = counter_rate(ranks, lambda r: r.dram, 1)
    return {
        "bytes_per_step.dram": _shared(moved, "byte", scope, missing, how, seen),
        "dram_bytes_per_second": _shared(per_second, "byte/s", scope, missing, how, seen),
        "intensity.dram": _shared(found.number, "FLOP/byte", scope, why, over_how + found.which, seen),
    }


def _energy_values(
    ranks: Sequence[RankEvidence], scope: Scope, values: Mapping[str, Value]
) -> dict[str, Value]:
    counters: list[CounterEvidence] = []
    origin_of: dict[str, None] = {}
    for rank in ranks:
        if rank.energy is not None:
            counters.append(rank.energy)
            default = origins.CPUS_ALONE if on_gpu(rank) else origins.BY_CPU
            origin_of[rank.energy_of or default] = None
    how = "; ".join(origin_of)
    missing = reason_of(ranks, "energy", reasons.NO_ENERGY_COUNTER)
    used = per_window(counters, ranks, 1) if _stepping(ranks) else None
    found = Over(None, why=reasons.NO_GPU_ENERGY)
    if not any(on_gpu(r) and not r.has_gpu_energy for r in ranks):
        found = over(ranks, values, lambda r: r.energy)
    why = missing if used is None else found.why
    return {
        "energy_per_step": _shared(used, "J", scope, missing, how),
        "power": _shared(counter_rate(ranks, lambda r: r.energy, 1), "W", scope, missing, how),
        "flops_per_joule": _shared(found.number, "FLOP/J", scope, why, how + found.which),
    }


def _stepping(ranks: Sequence[RankEvidence]) -> bool:
    return any(len(r.steps.step) for r in ranks)


def _shared(
    number: float | None, unit: str, scope: Scope, missing: str, why: str, share: float | None = None
) -> Value:
    return value(number, unit, Provenance.ESTIMATED, scope, share, why, missing)


def on_gpu(rank: RankEvidence) -> bool:
    """Whether it computes on a GPU, at least in part."""
    return rank.uses_gpu or (rank.kernels is not None and rank.kernels.on_gpu)


def over(ranks: Sequence[RankEvidence], values: Mapping[str, Value], counter: Counter) -> Over:
    """FLOPs a step over what is counted a step, both of the same ranks; a rank weighs as many steps as its
    counter saw. values: of `work` and `counted_flops`: FLOPs of kernels, where any rank has them."""
    recorded = values["flops_per_step"].value is not None
    flops = counted = 0.0
    both, some = 0, 0
    for rank in ranks:
        done, found = _flops_per_step(rank, recorded), counter(rank)
        used = None if found is None else per_window([found], [rank], 1)
        if done is not None or used is not None:
            some += 1
        if done is not None and used is not None and found is not None:
            both += 1
            flops += found.windows * done
            counted += found.windows * used
    which = origins.of_ranks_known(both, some) if both < some else ""
    no_work = values["flops_per_step"].reason or reasons.NO_FLOPS_COUNTED
    return Over(ratio(flops, counted) if both else None, which, no_work)


def _flops_per_step(rank: RankEvidence, recorded: bool) -> float | None:
    """FLOPs of a step of a rank, the mean: of recorded kernels, or by counters."""
    if not recorded:
        return per_window([rank.counted_flops.counter], [rank], 1) if rank.counted_flops else None
    k = rank.kernels
    if k is None or not k.has_flops or not len(rank.steps.step):
        return None
    return mean(k.watched("flops"), 1)


# -- what a profiler counted ------------------------------------------------------------------------------


def _in_full(ranks: Sequence[RankEvidence]) -> list[KernelEvidence]:
    """Kernels of the ranks, where a profiler counted the traffic of every one on every rank that has any."""
    known = [r.kernels for r in ranks if r.kernels is not None]
    full = [k for k in known if k.complete.any() and not np.count_nonzero(k.watched("dram") == ABSENT)]
    return full if len(full) == len(known) else []


def without_traffic(ranks: Sequence[RankEvidence]) -> int:
    """How many ranks have FLOPs, but no DRAM traffic that anybody counted."""
    if _in_full(ranks):
        return 0
    computing = [r for r in ranks if r.counted_flops or (r.kernels is not None and r.kernels.has_flops)]
    return sum(r.dram is None for r in computing)


def is_bound(ranks: Sequence[RankEvidence]) -> bool:
    """Whether their DRAM traffic is no more than a lower bound."""
    return any(r.dram_is_bound for r in ranks) and not _in_full(ranks)


def _profiled_dram_values(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """DRAM traffic where a profiler counted it, kernel by kernel, on every rank; else nothing."""
    full = _in_full(ranks)
    if not full:
        return {}
    moved = pool([k.watched("dram") for k in full])
    flops = pool([k.watched("flops") for k in full])

    def measured(number: float | None, unit: str, missing: str, origin: Provenance = _MEASURED) -> Value:
        return value(number, unit, origin, scope, reason=origins.BY_PROFILER, missing=missing)

    per_step = median(moved) if _stepping(ranks) else None
    intensity = ratio(total_of(flops), total_of(moved))
    return {
        "bytes_per_step.dram": measured(per_step, "byte", reasons.NO_STEPS),
        "dram_bytes_per_second": measured(rate(ranks, "dram"), "byte/s", reasons.NO_TIME),
        "intensity.dram": measured(intensity, "FLOP/byte", reasons.NO_DRAM_TRAFFIC, over_counted(full)),
    }
