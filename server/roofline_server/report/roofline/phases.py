"""Points of phases: the FLOPs of the kernels that ran in a phase over the time of the phase."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from roofline.answers.roofline import RoofPoint

from ...correlate.kernel_totals import KernelTotal
from ...model.breakdown import why_phases_lack
from ...model.evidence import RankEvidence
from ...model.roofline.points import Named
from ...model.roofline.roofs import Limits
from ...model.roofline.summary import on_gpu
from ...model.roofline.work import dominant_precision
from ...records import ABSENT
from ...sentences import rooflines as texts
from ...sentences.breakdowns import no_phases_at_all
from ...sentences.points import alone
from ..ceilings.contention import sharing
from ..ceilings.limits import everywhere
from ..kernels.totals import kernel_totals
from .kernel_sums import CallsAsked, KernelSum, left_out, points_of, summed


def of_phases(asked: CallsAsked) -> tuple[list[RoofPoint], list[str]]:
    """A point for each phase of a rank, and notes."""
    # A replayed step has no time of its own, so no phase of it has a rate.
    replayed = [n for n, r in asked.evidence.items() if r.kernels is not None and r.kernels.profiled]
    notes = [texts.replayed_phases([asked.evidence[n].key for n in replayed])] if replayed else []
    evidence = {n: rank for n, rank in asked.evidence.items() if n not in replayed}
    if not evidence:
        return [], notes
    found = kernel_totals(asked.store, asked.view, asked.steps, list(evidence), by_phase=True)
    if not found.totals:
        return [], [texts.NO_KERNELS]
    grouped: dict[tuple[int, str], list[KernelTotal]] = {}
    for total in found.totals:
        grouped.setdefault((total.rank, total.phase), []).append(total)
    made: list[RoofPoint] = []
    for (number, phase), totals in grouped.items():
        rank = evidence[number]
        limits = everywhere(asked.view, number, dominant_precision([rank]), on_gpu([rank]))
        made += _points_of_phase(rank, phase, totals, limits, asked.kind, sharing(asked.contention, limits))
    notes += left_out(found.totals)
    if any(total.phase and total.on_gpu for total in found.totals):
        notes.append(texts.LATER_PHASE)
    if not any(total.phase for total in found.totals):
        notes.append(no_phases_at_all(why_phases_lack(list(evidence.values()))))
    return made, notes


def _points_of_phase(
    rank: RankEvidence,
    phase: str,
    totals: Sequence[KernelTotal],
    limits: Sequence[Limits],
    kind: str,
    mates: int,
) -> list[RoofPoint]:
    who = Named(f"{rank.key} {phase or texts.OUTSIDE}", "phase", rank.role, rank.key, rank.host)
    work = _sum_of_phase(totals)
    lasted = _phase_ns(rank, phase)
    if lasted is not None:
        return points_of(who, work._replace(time_ns=lasted), limits, kind, mates)
    # The rate is over the time of the kernels alone, and its words say so.
    points = points_of(who, work, limits, kind, mates)
    return [point._replace(words=alone(point.words)) for point in points]


def _sum_of_phase(totals: Sequence[KernelTotal]) -> KernelSum:
    """All kernels; those without bytes count for the rate, those without FLOPs for the bytes."""
    known = [t._replace(flops=t.flops or 0.0) for t in totals]
    sized = [t for t in known if t.bytes is not None]
    if not any(t.flops for t in sized):
        sized = []  # copies alone have no intensity
    unsized = [t for t in known if t.bytes is None] if sized else []
    return summed(sized or known)._replace(
        time_ns=sum(t.time_ns for t in totals),
        spread=None,
        unknown=sum(t.calls for t in totals if t.flops is None),
        more=sum(t.flops or 0.0 for t in unsized),
        unsized=sum(t.calls for t in unsized if t.flops),
    )


def _phase_ns(rank: RankEvidence, phase: str) -> int | None:
    """Time of a phase, of the rest of the steps for "", in the steps whose kernels were all recorded."""
    complete = rank.columns.get("kernels.complete")
    if complete is None or not len(complete):
        return None
    whole = complete > 0
    if not whole.any():
        whole = np.ones(len(complete), bool)
    phases = {}
    for name, column in rank.columns.items():
        if name.startswith("phase.") and name.endswith(".ns"):
            spent = np.where(column == ABSENT, 0, column)[whole].sum()
            phases[name.removeprefix("phase.").removesuffix(".ns")] = int(spent)
    if phase:
        return phases[phase] if phases.get(phase, 0) > 0 else None
    rest = int((rank.steps.end_ns - rank.steps.begin_ns)[whole].sum()) - sum(phases.values())
    return rest if rest > 0 else None
