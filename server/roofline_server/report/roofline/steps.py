"""Points of single steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from roofline.answers.roofline import RoofPoint

from ...model.evidence import NS, KernelEvidence, RankEvidence
from ...model.points import Named, plain, step_rates
from ...model.roofline import CACHES, MINIMUM, Limits, main_memory
from ...model.summary import on_gpu
from ...model.verdicts import not_modelled
from ...model.work import dominant_precision, no_bytes_of
from ...records import ABSENT, Floats, Ints
from ...store.view import JobView
from ..ceilings import roofs
from ..ranks.contention import Crowd, sharing

MOST_POINTS = 2000
LEVELS = 3  # of a hierarchical roofline, about


def of_steps(
    view: JobView, evidence: Mapping[int, RankEvidence], kind: str, there: Crowd
) -> tuple[list[RoofPoint], list[str]]:
    """A point for each completely watched step, of every level in a hierarchical roofline. Of too many steps
    those that stand evenly in order of their FLOP/s, the slowest and the fastest among them. there: of the
    whole job."""
    known = {n: r for n, r in evidence.items() if r.kernels is not None and r.kernels.complete.any()}
    notes = [f"{r.key}: no step is known whole with its FLOPs" for n, r in evidence.items() if n not in known]
    each = max(2, MOST_POINTS // max(1, len(known)) // (LEVELS if kind == "hierarchical" else 1))
    found: list[RoofPoint] = []
    for number, rank in known.items():
        limits = roofs.everywhere(view, number, dominant_precision([rank]), on_gpu([rank]))
        made = list(_steps_of(rank, limits, kind, each, sharing(there, limits)))
        if not made:
            notes.append(f"{rank.key}: of no step both FLOPs and bytes are known")
        found += made
    most = max((int(r.kernels.complete.sum()) for r in known.values() if r.kernels), default=0)
    if most > each:
        notes.append(
            f"of up to {most} steps of a rank {each} are shown: evenly in order of their FLOP/s, from the "
            "slowest to the fastest"
        )
    return found, notes


def _steps_of(
    rank: RankEvidence, limits: Sequence[Limits], kind: str, most: int, mates: int
) -> Iterable[RoofPoint]:
    k = rank.kernels
    if k is None or not k.has_flops:
        return
    rates = step_rates(k)
    at = np.flatnonzero(k.complete)[_thinned(rates, most)]
    for level, column in _columns(k, limits[0].device, kind):
        sized = k.sized_flops if level == MINIMUM else k.flops
        for row in at.tolist():
            flops, moved, lasted = int(sized[row]), int(column[row]), k.duration_ns[row] / NS
            if moved != ABSENT:
                number = "" if k.step is None else f" step {k.step[row]}"
                who = Named(f"{rank.key}{number}", "step", rank.role, rank.key, rank.host)
                more = int(k.flops[row]) - flops
                made = plain(who, level, flops, moved, lasted, limits, k.on_gpu, more=more, sharing=mates)
                yield made._replace(incomplete=_incomplete(k, row, more))


def _incomplete(k: KernelEvidence, row: int, more: int) -> str:
    """What the counts of a step lack."""
    said = [not_modelled(int(k.unmodelled[row]))] * bool(k.unmodelled[row])
    if more:
        said.append(f"{no_bytes_of(more / int(k.flops[row]))}: the intensity is that of the others")
    return "; ".join(said)


def _thinned(rates: Floats, most: int) -> Ints:
    """At most so many positions, in order: evenly over the sorted rates."""
    if len(rates) <= most:
        return np.arange(len(rates))
    picked = np.linspace(0, len(rates) - 1, most).round().astype(np.int64)
    order: Ints = np.sort(np.argsort(rates, kind="stable")[picked])
    return order


def _columns(k: KernelEvidence, device: str, kind: str) -> list[tuple[str, Ints]]:
    """Bytes by level: the best known alone, or all."""
    every = [(MINIMUM, k.bytes)] * k.has_bytes
    every += [(name, k.levels[name]) for name in CACHES if name in k.levels]
    counted = not np.any(k.dram[k.complete] == ABSENT)
    every += [(main_memory(device), k.dram)] * counted
    return every if kind == "hierarchical" else every[-1:] if counted else every[: k.has_bytes]
