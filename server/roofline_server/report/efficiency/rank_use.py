"""The steps of one rank: what they executed, what of it is the model's, and its part of the peaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from roofline.answers.model_flops import ModelFlops
from roofline.answers.values import Provenance, Value

from ...model.account.account import Account
from ...model.efficiency import Needs, RankSteps, Waterfall, exceeds_executed, waterfall
from ...model.evidence import KernelEvidence, RankEvidence
from ...model.roofline.roofs import MINIMUM
from ...model.roofline.summary import placed
from ...model.roofline.work import dominant_precision, mean_flops
from ...records import ABSENT, Ints
from ...sentences import efficiency as texts
from ...store.view import JobView
from ..ceilings.contention import Contention
from ..roofline.groups import PointGroup
from .model_flops import model_flops
from .peaks import PlacePeaks, peaks_of


class RankUse(NamedTuple):
    """One rank. beyond: as of Waterfall; unpeaked: precisions of its FLOPs whose peaks are not known.

    origins: of the parts of its account."""

    group: PointGroup
    model: Value
    executed: Value
    peaks: PlacePeaks
    steps: RankSteps
    beyond: float
    unpeaked: list[str]
    origins: Mapping[str, Provenance]

    @property
    def is_known(self) -> bool:
        return self.steps.model is not None and self.steps.peak is not None

    @property
    def exceeds(self) -> bool:
        """Whether its model is said to have more FLOPs than it executed."""
        return exceeds_executed(self.model.value, self.executed.value)


def use_of(
    view: JobView,
    number: int,
    group: PointGroup,
    account: Account,
    asked: ModelFlops,
    contention: Contention,
    between: float = 0.0,
) -> RankUse:
    """group: of this rank alone; contention: of all ranks of the job; between: seconds between two steps."""
    rank = group.ranks[number]
    executed = _executed(rank, group)
    model = model_flops(rank, executed, view.facts.get(number, {}), asked)
    by_precision = _by_precision(rank, executed.value)
    precision = asked.precision or dominant_precision([rank])
    peaks = peaks_of(view, number, rank, precision, by_precision, contention)
    needs = _needs(rank, group, model.value, executed.value, by_precision, peaks)
    parts = {part: float(seconds.mean()) for part, seconds in account.parts.items()}
    found = waterfall(parts, needs, peaks.parts > 1) if peaks.best is not None else Waterfall(parts)
    every = dict(found.parts)
    if between:
        every["other"] = every.get("other", 0.0) + between
    return RankUse(
        group,
        model,
        executed,
        peaks,
        RankSteps(
            float(account.duration.mean()) + between,
            len(account.duration),
            every,
            model.value,
            executed.value,
            peaks.best,
            peaks.theory,
        ),
        found.beyond,
        sorted(set(by_precision) - set(peaks.each) - {precision}),
        {**account.provenance, "other": Provenance.MEASURED} if between else account.provenance,
    )


def _executed(rank: RankEvidence, group: PointGroup) -> Value:
    """FLOPs of a step. Updates of variables are none of the model's: a parameter server trains nothing."""
    if rank.kernels is not None and rank.kernels.rule:
        return Value(None, "FLOP", reason=texts.UPDATES)
    if rank.uses_gpu and rank.kernels is None:
        return Value(None, "FLOP", reason=texts.NOT_OF_GPU)
    return mean_flops([rank], group.values)


def _by_precision(rank: RankEvidence, executed: float | None) -> dict[str, float]:
    """FLOPs of a step in each precision that any have; those of no known one are left out."""
    k, counted = rank.kernels, rank.counted_flops
    if executed is None:
        return {}
    if k is not None and k.has_flops and k.complete.any():
        return {one: _mean(flops, k) or 0.0 for one, flops in k.by_precision.items() if one}
    if counted is None:
        return {}
    found: dict[str, float] = {}
    for event, flops in counted.by.items():
        precision = event.partition(".")[0]
        found[precision] = found.get(precision, 0.0) + flops
    found.pop("all", None)
    total = sum(found.values())
    return {one: executed * flops / total for one, flops in found.items()} if total > 0 else {}


def _needs(
    rank: RankEvidence,
    group: PointGroup,
    model: float | None,
    executed: float | None,
    by_precision: Mapping[str, float],
    peaks: PlacePeaks,
) -> Needs:
    """Seconds of a step."""
    peak = peaks.best
    if peak is None or (model is None and executed is None):
        return Needs()
    precisions = None
    slower = [one for one in by_precision if one != peaks.precision and one in peaks.each]
    if executed is not None and slower:
        others = sum(by_precision[one] for one in slower)
        precisions = (executed - others) / peak + sum(by_precision[one] / peaks.each[one] for one in slower)
    memory = launches = None
    k = rank.kernels
    if k is not None and k.complete.any():
        level = placed([rank], group.values)[0]
        column = k.bytes if level == MINIMUM and k.has_bytes else k.dram
        moved, bandwidth = _mean(column, k), peaks.bandwidth(level)
        memory = moved / bandwidth if moved is not None and bandwidth else None
        calls = None if k.calls is None else _mean(k.calls, k)
        launches = calls * peaks.launch if calls is not None and peaks.launch is not None else None
    useful = None if model is None else model / peak
    all_ = None if executed is None or executed == model else executed / peak
    return Needs(useful, all_, precisions, memory, launches)


def _mean(column: Ints, k: KernelEvidence) -> float | None:
    """Over the steps whose kernels are all known; None: of one of them it is not known."""
    known = column[k.complete]
    return None if not len(known) or (known == ABSENT).any() else float(np.mean(known, dtype=np.float64))
