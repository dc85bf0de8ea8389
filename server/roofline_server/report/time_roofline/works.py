"""What kernels, or steps, of a job did and how long that took: what the time-based roofline places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Spread

from ...correlate.kernel_totals import KernelTotal
from ...model.evidence import NS, KernelEvidence, RankEvidence
from ...model.roofline.compose import sampled
from ...model.roofline.points import spread
from ...model.roofline.roofs import MINIMUM, main_memory
from ...model.roofline.work import dominant_precision, without_bytes
from ...records import ABSENT, Bools, KernelKind
from ...sentences import time_rooflines as texts
from ...sentences.breakdowns import mean_over
from ...sentences.origins import left_out
from ...sentences.points import NO_AMX, no_bytes_of
from ...sentences.wording import joined
from ...store.view import JobView
from ..ceilings.places import Place, place_of
from ..kernels.names import label, name_of
from ..kernels.totals import Kernels
from ..ranks.members import name_of as rank_name


class PointWork(NamedTuple):
    """Work of one point. flops, bytes None: not known. Sums and launches are those of one step of one rank
    (means), or of the whole run of one rank where there are no steps."""

    place: Place
    precision: str
    label: str
    name: str  # without shapes
    role: str
    rank: str  # where it is of one rank alone
    flops: float | None
    bytes: float | None
    level: str
    seconds: float
    launches: float
    spread: Spread | None
    flops_origin: Provenance
    bytes_origin: Provenance
    per: str  # what all this is of, in words
    incomplete: str = ""
    ranks: int = 1  # it is the mean of

    @property
    def is_drawable(self) -> bool:
        return all(x is not None and x > 0 for x in (self.flops, self.bytes, self.seconds))


def kernels(view: JobView, found: Kernels) -> list[PointWork]:
    """One for each kind of kernel and role on a device: the mean of those ranks that computed there."""
    grouped: dict[tuple[Place, str, KernelKind], list[KernelTotal]] = {}
    members: dict[tuple[Place, str], set[int]] = {}
    places: dict[tuple[int, bool], Place] = {}  # by rank, and whether on a GPU
    for total in found.totals:
        key = (total.rank, total.on_gpu)
        if key not in places:
            places[key] = place_of(view, *key)
        place, role = places[key], view.ranks[total.rank].role
        grouped.setdefault((place, role, total.kind), []).append(total)
        members.setdefault((place, role), set()).add(total.rank)
    return [
        _kernel(view, place, role, totals, members[place, role], found.steps)
        for (place, role, _), totals in grouped.items()
    ]


def _kernel(
    view: JobView,
    place: Place,
    role: str,
    totals: Sequence[KernelTotal],
    ranks: set[int],
    steps: Mapping[int, int],
) -> PointWork:
    """totals: of one kind; ranks: all of the role that computed in the place."""
    kind, on_gpu = totals[0].kind, totals[0].on_gpu
    profiled = all(t.dram is not None for t in totals)
    level = MINIMUM
    if profiled:
        level = main_memory("gpu" if on_gpu else place.device or "")

    def mean(numbers: Sequence[float | None], scale: float = 1.0) -> float | None:
        shares = []
        for total, number in zip(totals, numbers, strict=True):
            if number is None:
                return None
            shares.append(number / scale / steps.get(total.rank, 1))
        return float(sum(shares)) / len(ranks)

    # Spreads of several ranks: the mean of their quantiles, by how many calls each is of.
    weights = [t.time.count for t in totals]
    quantiles = np.average([t.time[:5] for t in totals], axis=0, weights=weights)
    p5, p25, p50, p75, p95 = quantiles.tolist()
    return PointWork(
        place,
        kind.precision,
        label(kind),
        name_of(kind),
        role,
        rank=rank_name(view, next(iter(ranks))) if len(ranks) == 1 else "",
        flops=mean([t.flops for t in totals]),
        bytes=mean([t.dram if profiled else t.bytes for t in totals]),
        level=level,
        seconds=mean([t.time_ns for t in totals], NS) or 0.0,
        launches=mean([t.calls for t in totals]) or 0.0,
        spread=Spread(p5, p25, p50, p75, p95, sum(weights)),
        flops_origin=Provenance.MEASURED if any(t.counted for t in totals) else Provenance.ANALYTIC,
        bytes_origin=Provenance.MEASURED if profiled else Provenance.ANALYTIC,
        per=mean_over(len(ranks), sum(steps.get(number, 0) for number in ranks)),
        ranks=len(ranks),
    )


# -- steps --------------------------------------------------------------------------------------------------


def steps(view: JobView, ranks: Mapping[int, RankEvidence]) -> list[PointWork]:
    """The mean step of each rank that has steps and FLOPs: of numbers that are divided the means."""
    found = []
    for number, rank in ranks.items():
        one = _step_by_kernels(view, number, rank) or _step_by_counters(view, number, rank)
        if one is not None:
            found.append(one)
    return found


def _step_by_kernels(view: JobView, number: int, rank: RankEvidence) -> PointWork | None:
    k = rank.kernels
    if k is None or not k.has_flops or not len(rank.steps.step) or not k.complete.any():
        return None
    place = place_of(view, number, k.on_gpu)
    moved, level, origin = _traffic(rank, k, place)
    over_tensors = level == MINIMUM and k.has_bytes
    flops = k.sized_flops if over_tensors else k.flops
    unsized = without_bytes([k]) if over_tensors and flops is not k.flops else 0.0
    how_known, of_sample = sampled([k])
    if origin == Provenance.ANALYTIC:
        origin = how_known
    seconds = k.duration_ns[k.complete] / NS
    per = texts.mean_of_steps(len(seconds)) if len(seconds) > 1 else texts.ONE_STEP
    return PointWork(
        place,
        dominant_precision([rank]),
        label=rank.key,
        name=rank.key,
        role=rank.role,
        rank=rank.key,
        flops=float(np.mean(flops[k.complete])),
        bytes=moved,
        level=level,
        seconds=float(np.mean(seconds)),
        launches=float(np.mean(k.calls[k.complete])) if k.calls is not None else 0.0,
        spread=spread(seconds),
        flops_origin=Provenance.MEASURED if k.counted else how_known,
        bytes_origin=origin,
        per=joined(texts.replayed(per) if k.profiled else per, of_sample),
        incomplete=joined(
            texts.UNCOUNTED_KERNELS if k.unmodelled[k.complete].any() else "",
            left_out(no_bytes_of(unsized)) if unsized else "",
        ),
    )


def _traffic(rank: RankEvidence, k: KernelEvidence, place: Place) -> tuple[float | None, str, Provenance]:
    """Bytes of a step: of main memory where they were counted, else that of its tensors."""
    known: Bools = k.complete & (k.dram != ABSENT)
    if known.any() and known.sum() == k.complete.sum():
        level = main_memory("gpu" if k.on_gpu else place.device or "")
        return float(np.mean(k.dram[known])), level, Provenance.MEASURED
    if not k.on_gpu and rank.dram is not None and not rank.dram_is_bound and rank.dram.per_window > 0:
        return rank.dram.per_window, main_memory(""), Provenance.ESTIMATED
    return float(np.mean(k.bytes[k.complete])) if k.has_bytes else None, MINIMUM, Provenance.ANALYTIC


def _step_by_counters(view: JobView, number: int, rank: RankEvidence) -> PointWork | None:
    counted = rank.counted_flops
    if counted is None or not len(rank.steps.step) or not counted.counter.windows:
        return None
    seconds = (rank.steps.end_ns - rank.steps.begin_ns) / NS
    return PointWork(
        place_of(view, number),
        dominant_precision([rank]),
        label=rank.key,
        name=rank.key,
        role=rank.role,
        rank=rank.key,
        flops=counted.counter.per_window,
        bytes=rank.dram.per_window if rank.dram is not None and not rank.dram_is_bound else None,
        level=main_memory(""),
        seconds=float(np.mean(seconds)),
        launches=0.0,
        spread=spread(seconds),
        flops_origin=Provenance.ESTIMATED if counted.estimated else Provenance.MEASURED,
        bytes_origin=Provenance.ESTIMATED,
        per=texts.mean_of_steps(len(seconds)),
        incomplete=NO_AMX if counted.amx_busy else "",
    )
