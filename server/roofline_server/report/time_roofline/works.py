"""What kernels, or steps, of a job did and how long that took: what the time-based roofline places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Spread

from ...correlate.kernel_totals import KernelTotal
from ...model.evidence import NS, KernelEvidence, RankEvidence
from ...model.roofline import MINIMUM, main_memory
from ...model.work import dominant_precision, without_bytes
from ...records import ABSENT, Bools, Floats, Ints, KernelKind
from ...store.view import JobView
from ..breakdown.kernel_totals import Kernels
from ..ceilings.roofs import Place, place_of

SHAPE_LENGTH = 60


class Found(NamedTuple):
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


def kernels(view: JobView, found: Kernels) -> list[Found]:
    """One for each kind of kernel and role on a device: the mean of those ranks that computed there."""
    grouped: dict[tuple[Place, str, KernelKind], list[KernelTotal]] = {}
    members: dict[tuple[Place, str], set[int]] = {}
    places = _Places(view)
    for total in found.totals:
        place, role = places.of(total.rank, total.on_gpu), view.ranks[total.rank].role
        grouped.setdefault((place, role, total.kind), []).append(total)
        members.setdefault((place, role), set()).add(total.rank)
    return [
        _kernel(view, key, totals, members[key[0], key[1]], found.steps) for key, totals in grouped.items()
    ]


class _Places:
    """Where ranks compute, looked up once each."""

    def __init__(self, view: JobView) -> None:
        self._view = view
        self._known: dict[tuple[int, bool], Place] = {}

    def of(self, rank: int, on_gpu: bool) -> Place:
        if (rank, on_gpu) not in self._known:
            self._known[rank, on_gpu] = place_of(self._view, rank, on_gpu)
        return self._known[rank, on_gpu]


def _kernel(
    view: JobView,
    key: tuple[Place, str, KernelKind],
    totals: Sequence[KernelTotal],
    ranks: set[int],
    steps: Mapping[int, int],
) -> Found:
    place, role, kind = key
    counted = "dram" if all(t.dram is not None for t in totals) else "bytes"
    on_gpu = totals[0].on_gpu

    def mean(name: str, scale: float = 1.0) -> float | None:
        each = [getattr(t, name) for t in totals]
        if any(x is None for x in each):
            return None
        shares = (x / scale / steps.get(t.rank, 1) for x, t in zip(each, totals, strict=True))
        return float(sum(shares)) / len(ranks)

    return Found(
        place,
        kind.precision,
        label(kind),
        name_of(kind),
        role,
        rank_name(view, ranks),
        mean("flops"),
        mean(counted),
        main_memory(place.device or "" if not on_gpu else "gpu") if counted == "dram" else MINIMUM,
        mean("time_ns", NS) or 0.0,
        mean("calls") or 0.0,
        pooled([t.time for t in totals]),
        Provenance.MEASURED if on_gpu else Provenance.ANALYTIC,
        Provenance.MEASURED if counted == "dram" else Provenance.ANALYTIC,
        per(len(ranks), [steps[r] for r in ranks if r in steps]),
        ranks=len(ranks),
    )


def label(kind: KernelKind) -> str:
    """ "convolution backward_data 64x3x224x224": operation, variant, shapes."""
    shapes = kind.problem if len(kind.problem) <= SHAPE_LENGTH else f"{kind.problem[: SHAPE_LENGTH - 1]}…"
    return " ".join(filter(None, (name_of(kind), shapes)))


def name_of(kind: KernelKind) -> str:
    return " ".join(filter(None, (kind.operation, kind.variant))) or kind.library or "unknown"


def rank_name(view: JobView, ranks: Iterable[int]) -> str:
    """The rank's name, where it is one."""
    each = list(ranks)
    return f"{view.ranks[each[0]].role}:{view.ranks[each[0]].index}" if len(each) == 1 else ""


def per(ranks: int, steps: Sequence[int]) -> str:
    who = f" of {ranks} ranks" if ranks > 1 else ""
    if not steps:
        return f"in the whole run; mean{who}" if ranks > 1 else "in the whole run"
    return f"a step; mean over {sum(steps):,} steps{who}"


def pooled(spreads: Sequence[Spread]) -> Spread | None:
    """Of one its own; of several the mean of their quantiles, by how many each is of."""
    if not spreads:
        return None
    weights = [spread.count for spread in spreads]
    quantiles = np.average([spread[:5] for spread in spreads], axis=0, weights=weights)
    p5, p25, p50, p75, p95 = quantiles.tolist()
    return Spread(p5, p25, p50, p75, p95, sum(weights))


# -- steps --------------------------------------------------------------------------------------------------


def steps(view: JobView, ranks: Mapping[int, RankEvidence]) -> list[Found]:
    """The mean step of each rank that has steps and FLOPs: of numbers that are divided the means."""
    found = []
    for number, rank in ranks.items():
        one = _of_kernels(view, number, rank) or _of_counters(view, number, rank)
        if one is not None:
            found.append(one)
    return found


def _of_kernels(view: JobView, number: int, rank: RankEvidence) -> Found | None:
    k = rank.kernels
    if k is None or not k.has_flops or not len(rank.steps.step) or not k.complete.any():
        return None
    place = place_of(view, number, k.on_gpu)
    moved, level, origin = _traffic(rank, k, place)
    seconds = k.duration_ns[k.complete] / NS
    flops = k.sized_flops if level == MINIMUM and k.has_bytes else k.flops
    return Found(
        place,
        dominant_precision([rank]),
        rank.key,
        rank.key,
        rank.role,
        rank.key,
        float(np.mean(flops[k.complete])),
        moved,
        level,
        float(np.mean(seconds)),
        float(np.mean(k.calls[k.complete])) if k.calls is not None else 0.0,
        spread(seconds),
        Provenance.MEASURED if k.on_gpu else Provenance.ANALYTIC,
        origin,
        _of_steps(k),
        _lacking(k, flops),
    )


def _of_steps(k: KernelEvidence) -> str:
    count = int(k.complete.sum())
    said = f"mean of {count:,} steps" if count > 1 else "of one step"
    return f"{said} that ncu replayed; time: the mean of the others" if k.profiled else said


def _lacking(k: KernelEvidence, flops: Ints) -> str:
    said = ["FLOPs of some kernels (pooling, normalisation, ...) are not counted"] * bool(
        k.unmodelled[k.complete].any()
    )
    lacking = without_bytes([k]) if flops is not k.flops else ""
    return "; ".join([*said, *[f"{lacking}: left out"] * bool(lacking)])


def _traffic(rank: RankEvidence, k: KernelEvidence, place: Place) -> tuple[float | None, str, Provenance]:
    """Bytes of a step: of main memory where they were counted, else that of its tensors."""
    known: Bools = k.complete & (k.dram != ABSENT)
    if known.any() and known.sum() == k.complete.sum():
        return (
            float(np.mean(k.dram[known])),
            main_memory("gpu" if k.on_gpu else place.device or ""),
            Provenance.MEASURED,
        )
    if not k.on_gpu and rank.dram is not None and not rank.dram_is_bound and rank.dram.per_window > 0:
        return rank.dram.per_window, main_memory(""), Provenance.ESTIMATED
    return float(np.mean(k.bytes[k.complete])) if k.has_bytes else None, MINIMUM, Provenance.ANALYTIC


def _of_counters(view: JobView, number: int, rank: RankEvidence) -> Found | None:
    counted = rank.counted_flops
    if counted is None or not len(rank.steps.step) or not counted.counter.windows:
        return None
    moved = rank.dram.per_window if rank.dram is not None and not rank.dram_is_bound else None
    seconds = (rank.steps.end_ns - rank.steps.begin_ns) / NS
    return Found(
        place_of(view, number),
        dominant_precision([rank]),
        rank.key,
        rank.key,
        rank.role,
        rank.key,
        counted.counter.per_window,
        moved,
        main_memory(""),
        float(np.mean(seconds)),
        0.0,
        spread(seconds),
        Provenance.ESTIMATED if counted.estimated else Provenance.MEASURED,
        Provenance.ESTIMATED,
        f"mean of {len(seconds):,} steps",
        "AMX FLOPs are not counted" if counted.amx_busy else "",
    )


def spread(numbers: Floats) -> Spread | None:
    """Quantiles; None of one alone."""
    if len(numbers) < 2:
        return None
    p5, p25, p50, p75, p95 = np.percentile(numbers, [5, 25, 50, 75, 95]).tolist()
    return Spread(p5, p25, p50, p75, p95, len(numbers))
