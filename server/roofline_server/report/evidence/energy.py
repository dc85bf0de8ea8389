"""Energy of the GPUs that ranks used, added to their share of the node's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...model.evidence import NS, CounterEvidence, RankEvidence
from ...sentences import origins
from ...store.view import JobView

# Counter set and metric. DCGM counts energy too, but does not know which processes use a GPU.
METRIC = ("gpu", "energy_joules")


def with_gpus(view: JobView, evidence: Mapping[int, RankEvidence]) -> dict[int, RankEvidence]:
    """This evidence with the energy of GPUs whose counters carry a rank: no other rank used them."""
    by_gpu: dict[tuple[int, str], float] = {}  # mean power over the job, W, by rank and GPU
    for part in view.parts:
        if part.rank not in view.ranks or (part.metric.counter_set, part.metric.name) != METRIC:
            continue
        if part.grown is not None and part.seconds > 0:
            by_gpu.setdefault((part.rank, part.instance), part.grown / part.seconds)
    power: dict[int, float] = {}
    for (number, _), watts in by_gpu.items():
        power[number] = power.get(number, 0.0) + watts
    return {n: _with_power(rank, power[n]) if n in power else rank for n, rank in evidence.items()}


def _with_power(rank: RankEvidence, watts: float) -> RankEvidence:
    steps = rank.steps
    step = float(np.mean(steps.end_ns - steps.begin_ns)) / NS if len(steps.step) else float("nan")
    known = rank.energy
    if known is None:
        lasted = float(steps.end_ns.max() - steps.begin_ns.min()) / NS if len(steps.step) else 1.0
        made = CounterEvidence(watts * lasted, lasted, len(steps.step), watts * step)
        return rank._replace(energy=made, energy_of=origins.GPU_ALONE, has_gpu_energy=True)
    total, each = known.total + watts * known.seconds, known.per_window + watts * step
    both = known._replace(total=total, per_window=each)
    return rank._replace(energy=both, energy_of=origins.GPU_AND_CPUS, has_gpu_energy=True)
