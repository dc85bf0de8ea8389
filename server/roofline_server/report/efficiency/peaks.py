"""Peaks of the place where a rank computes: its part of them, by precision, measured and theoretical."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from roofline.answers.values import Provenance

from ...model.evidence import RankEvidence
from ...model.roofline.roofs import Limits, counts, of_node, with_ceilings
from ...sentences import efficiency as texts
from ...sentences.wording import joined
from ...store.view import JobView
from ..ceilings.contention import Contention, sharing
from ..ceilings.limits import everywhere
from ..ceilings.nodes import ceilings


class PlacePeaks(NamedTuple):
    """Of the places of one rank, its part of them. measured, theory: FLOP/s in the precision; each: measured
    ones of other precisions; bandwidth: byte/s; launch: s. None: not known, `why` says why of the peaks."""

    precision: str
    limits: list[Limits]
    measured: float | None
    theory: float | None
    each: dict[str, float]
    parts: float
    launch: float | None
    why: str

    @property
    def part_of(self) -> str:
        """What they are of, where others compute there too, or where another kind of FP8 stands in."""
        part = texts.its_part(self.parts) if self.parts > 1 else ""
        return joined(part, *dict.fromkeys(one.stand_in for one in self.limits))

    @property
    def best(self) -> float | None:
        """What FLOPs are compared with: theory only where nothing was measured."""
        return self.measured if self.measured is not None else self.theory

    def bandwidth(self, level: str) -> float | None:
        slopes = [limits.bandwidth(level) for limits in self.limits]
        known = [slope.value for slope in slopes if slope is not None]
        return sum(known) / self.parts if len(known) == len(slopes) > 0 else None


def peaks_of(
    view: JobView,
    number: int,
    rank: RankEvidence,
    precision: str,
    others: Collection[str],
    contention: Contention,
) -> PlacePeaks:
    """others: precisions of its FLOPs; contention: of all ranks of the job."""
    gpu = rank.uses_gpu
    limits = everywhere(view, number, precision, gpu)
    parts = float(max(1, sharing(contention, limits)))
    measured = _together(limits, parts) if precision else None
    theory = _theory(view, limits, precision, parts) if precision else None
    each = {one: _together(everywhere(view, number, one, gpu), parts) for one in others if one}
    launches = [one.launch.value for one in limits if one.launch is not None]
    why = ""
    if measured is None:
        why = texts.NO_PEAK_OF_PRECISION
        if precision:
            why = next((w for w in (one.lacks_peak() for one in limits) if w), texts.ONLY_THEORY)
    return PlacePeaks(
        precision,
        limits,
        measured,
        theory,
        {one: peak for one, peak in each.items() if peak is not None},
        parts,
        min(launches, default=None),
        why,
    )


def _together(limits: list[Limits], parts: float) -> float | None:
    """The measured peaks of all its places."""
    found = [one.compute.value for one in limits if one.compute is not None and counts(one.compute)]
    return sum(found) / parts if len(found) == len(limits) > 0 else None


def _theory(view: JobView, limits: list[Limits], precision: str, parts: float) -> float | None:
    found = []
    for one in limits:
        known = of_node(c for c in ceilings(view, one.host) if c.device == one.device and c.kind == "compute")
        theory = [c for c in known if c.provenance == Provenance.ANALYTIC]
        kind = with_ceilings(theory, precision)
        mine = [c.value for c in theory if c.precision == kind]
        if not mine:
            return None
        found.append(max(mine))
    return sum(found) / parts if found else None
