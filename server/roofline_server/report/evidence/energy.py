"""Energy of the GPUs that ranks used, added to their share of the node's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...correlate.parts import PartTotal
from ...model.evidence import NS, CounterEvidence, RankEvidence
from ...sentences import origins
from ...store.view import JobView
from ..ranks.members import processes_of_ranks

# Counter set and metric. DCGM counts energy too, but does not know which processes use a GPU.
METRIC = ("gpu", "energy_joules")


def with_gpus(view: JobView, evidence: Mapping[int, RankEvidence]) -> dict[int, RankEvidence]:
    """This evidence with the energy of GPUs whose counters carry a rank: no other rank used them."""
    by_gpu: dict[int, dict[tuple[int, str], PartTotal]] = {}  # rank -> node and GPU -> what it used
    for part in view.parts:
        if part.rank not in view.ranks or (part.metric.counter_set, part.metric.name) != METRIC:
            continue
        if part.grown is not None and part.seconds > 0:
            by_gpu.setdefault(part.rank, {}).setdefault((part.node, part.instance), part)
    power = {number: _power(view, number, list(gpus.values())) for number, gpus in by_gpu.items()}
    return {n: _with_power(rank, power[n]) if n in power else rank for n, rank in evidence.items()}


def _power(view: JobView, number: int, gpus: Sequence[PartTotal]) -> float:
    """Mean power of all GPUs of a rank together, W: their joules over the time that it was on any. Who was on
    one after the other lived for as long as on all of them; who was on all at once, for as long as on one."""
    lives = [view.process_lifetimes[who] for who in processes_of_ranks(view).get(number, [])]
    lived = sum(life.last_ns - life.first_ns for life in lives) / NS
    every, longest = sum(gpu.seconds for gpu in gpus), max(gpu.seconds for gpu in gpus)
    return sum(gpu.grown or 0.0 for gpu in gpus) / max(longest, min(every, lived))


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
