"""Points of single steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from roofline.answers.roofline import RoofPoint
from roofline.answers.values import Provenance

from ...model.evidence import NS, KernelEvidence, RankEvidence
from ...model.roofline.points import Named, plain, step_rates
from ...model.roofline.roofs import CACHES, MINIMUM, Limits, main_memory
from ...model.roofline.summary import on_gpu
from ...model.roofline.work import dominant_precision
from ...records import ABSENT, Floats, Ints
from ...sentences import rooflines as texts
from ...sentences.points import no_bytes_of_some, not_modelled
from ...sentences.wording import joined
from ...store.view import JobView
from ..ceilings.contention import Contention, sharing
from ..ceilings.limits import everywhere

MOST_POINTS = 2000
LEVELS = 3  # of a hierarchical roofline, about


def of_steps(
    view: JobView, evidence: Mapping[int, RankEvidence], kind: str, contention: Contention
) -> tuple[list[RoofPoint], list[str]]:
    """A point for each completely watched step, of every level in a hierarchical roofline, and notes. Of too
    many steps those that stand evenly in order of their FLOP/s, the slowest and the fastest among them.
    contention: of the whole job."""
    known = {n: r for n, r in evidence.items() if r.kernels is not None and r.kernels.complete.any()}
    notes = [texts.no_whole_step(r.key) for n, r in evidence.items() if n not in known]
    each = max(2, MOST_POINTS // max(1, len(known)) // (LEVELS if kind == "hierarchical" else 1))
    found: list[RoofPoint] = []
    most = 0
    for number, rank in known.items():
        limits = everywhere(view, number, dominant_precision([rank]), on_gpu([rank]))
        made = _points_of_steps(rank, limits, kind, each, sharing(contention, limits))
        if not made:
            notes.append(texts.no_bytes_of_steps(rank.key))
        found += made
        if rank.kernels is not None:
            most = max(most, int(rank.kernels.complete.sum()))
    if most > each:
        notes.append(texts.steps_shown(most, each))
    return found, notes


def _points_of_steps(
    rank: RankEvidence, limits: Sequence[Limits], kind: str, most: int, mates: int
) -> list[RoofPoint]:
    k = rank.kernels
    if k is None or not k.has_flops:
        return []
    found = []
    rows = np.flatnonzero(k.complete)[_evenly_picked(step_rates(k), most)].tolist()
    for level, column in _bytes_by_level(k, limits[0].device, kind):
        sized = k.sized_flops if level == MINIMUM else k.flops
        for row in rows:
            if column[row] == ABSENT:
                continue
            label = rank.key if k.step is None else f"{rank.key} step {k.step[row]}"
            flops = int(sized[row])
            more = int(k.flops[row]) - flops
            made = plain(
                Named(label, "step", rank.role, rank.key, rank.host),
                level,
                flops,
                int(column[row]),
                k.duration_ns[row] / NS,
                limits,
                k.counted,
                more=more,
                sharing=mates,
            )
            missing = joined(
                not_modelled(int(k.unmodelled[row])) if k.unmodelled[row] else "",
                no_bytes_of_some(more / int(k.flops[row])) if more else "",
            )
            if k.estimated is not None and k.estimated[row]:
                rate = made.flops_per_second._replace(provenance=Provenance.ESTIMATED)
                made = made._replace(flops_per_second=rate)
            found.append(made._replace(incomplete=missing))
    return found


def _evenly_picked(rates: Floats, most: int) -> Ints:
    """At most so many positions, in order: evenly over the sorted rates."""
    if len(rates) <= most:
        return np.arange(len(rates))
    picked = np.linspace(0, len(rates) - 1, most).round().astype(np.int64)
    order: Ints = np.sort(np.argsort(rates, kind="stable")[picked])
    return order


def _bytes_by_level(k: KernelEvidence, device: str, kind: str) -> list[tuple[str, Ints]]:
    """Bytes by level: the best known alone, or all."""
    tensors = [(MINIMUM, k.bytes)] if k.has_bytes else []
    caches = [(name, k.levels[name]) for name in CACHES if name in k.levels]
    counted = []
    if not np.any(k.dram[k.complete] == ABSENT):
        counted.append((main_memory(device), k.dram))
    if kind == "hierarchical":
        return [*tensors, *caches, *counted]
    return counted or tensors
