"""What holds back what a point of the roofline stands for, and what would help: one sentence, and nothing
that was not counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from roofline.answers.values import Provenance, Value

from ...records import Floats
from ...sentences import points as texts
from ...sentences.wording import joined
from ..evidence import RankEvidence, total_of
from .roofs import MINIMUM, NETWORK, Limits, main_memory

AT_ROOF, ABOVE = 1.1, 0.95  # headroom below which something is at its roof, and above it
NEAR = 5  # headroom up to which it is the roof that holds something back, as far as numbers can tell
FAR = 10  # headroom above which it is not; between the two nobody knows
FILLED = 0.8  # share of its steps that kernels fill when it is they that matter
STARVED = 0.3  # share of its steps without a CPU that matters
NARROW = 0.3  # share of FLOPs in narrow vectors worth a word
PURE = 0.95  # share of FLOPs in one precision above which the others need no word


def sentence(
    headroom: float,
    intensity: float,
    level: str,
    limits: Limits,
    ranks: Sequence[RankEvidence],
    values: Mapping[str, Value],
    sharing: int,
) -> str:
    """limits: of the place that is taken to hold it back. sharing: how many ranks compute there."""
    parts = max(1.0, sharing / max(1, len(ranks)))
    below = headroom > AT_ROOF * parts
    lost = _share_starved(ranks) if below else 0.0
    lacks_cpus = texts.lacks_cpus(lost) if lost >= STARVED else ""
    fill = filled(ranks)
    if below and all(r.kernels is not None and r.kernels.rule for r in ranks):
        ceiling = limits.binding(intensity, level)
        first = texts.below_roof_by_updates(headroom / parts, parts, ceiling.name if ceiling else "")
    elif below and fill is not None and fill < FILLED:
        # More than the roof allows: it was measured too low, or the data are in caches.
        reached = min(1.0, parts / headroom / fill)
        well = reached >= FILLED / 2
        first = texts.hardly_computing(reached, fill, parts, well, lacks_cpus or _largest_other_time(values))
        lacks_cpus = ""
    else:
        first = of_work(headroom, intensity, level, limits, parts)
        first += _narrow_vectors(ranks, intensity, level, limits, headroom / parts)
    mixed = ""
    share = precision_share(ranks, limits.precision)
    if share is not None and share < PURE:
        mixed = texts.mixed_precisions(share, limits.precision)
    shared = ""
    if sharing > 1 and limits.device and level == NETWORK:
        shared = texts.shared_network(sharing)
    elif sharing > 1:
        shared = texts.shared_roof("GPU" if limits.device else "node", sharing)
    return joined(first, lacks_cpus, mixed, shared)


def of_work(headroom: float, intensity: float, level: str, limits: Limits, parts: float = 1) -> str:
    """What holds back whatever has this intensity: the ceiling, how far it is, and what would raise it.

    parts: of how many like it that share the roof this is one: it can reach no more than its part.
    """
    ceiling = limits.binding(intensity, level)
    if ceiling is None:
        return limits.lacks(level)
    if headroom < ABOVE:
        in_caches = ceiling.kind == "memory" and level == MINIMUM
        return texts.above_roof_in_caches(headroom) if in_caches else texts.above_roof(headroom)
    left = headroom / max(1.0, parts)
    if left > FAR:
        return texts.far_below_roof(left, parts, ceiling.name)

    if ceiling.kind == "compute":
        bound = texts.COMPUTE_AT_ROOF if left < AT_ROOF else texts.COMPUTE
    elif ceiling.kind == "network":
        bound = texts.NETWORK
    elif level == MINIMUM:
        bound = texts.memory_of_tensors(main_memory(limits.device))
    else:
        bound = texts.memory(level)

    if left >= AT_ROOF:
        distance = texts.below_roof(left, parts)
    elif parts > 1:
        distance = texts.at_part_of_roof(parts)
    else:
        distance = texts.at_roof(headroom)
    return texts.bound_by(bound, distance) if left <= NEAR else texts.perhaps_bound_by(bound, distance)


def filled(ranks: Sequence[RankEvidence]) -> float | None:
    """Share of completely watched steps in which kernels ran; None: not known, or they ran side by side."""
    known = [
        r.kernels for r in ranks if r.kernels is not None and r.kernels.complete.any() and len(r.steps.step)
    ]
    lasted = sum(total_of(k.duration_ns[k.complete]) for k in known)
    ran = sum(total_of(k.kernel_ns[k.complete]) for k in known)
    return ran / lasted if 0 < ran <= lasted else None


def _share_starved(ranks: Sequence[RankEvidence]) -> float:
    """Share of their steps in which their threads could run and did not, see `starved`; of the ranks of which
    it is known."""
    shares = []
    for rank in ranks:
        if rank.cpu_ns is None or rank.cpu_wait is None or not len(rank.steps.step):
            continue
        step = np.array([float(np.mean(rank.steps.end_ns - rank.steps.begin_ns))])
        if not step[0] > 0:
            continue
        ran, waited = np.array([rank.cpu_ns.per_window]), np.array([rank.cpu_wait.per_window])
        share = float((starved(step, ran, waited) / step)[0])
        if not np.isnan(share):
            shares.append(share)
    return sum(shares) / len(shares) if shares else 0.0


def starved(duration: Floats, cpu: Floats, cpu_wait: Floats) -> Floats:
    """Seconds of each step that a rank lacked a CPU: the time its threads waited for one, over how many of
    them ran or waited at once on average (at least one)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        at_once = np.maximum(1.0, (cpu + cpu_wait) / duration)
    return cpu_wait / at_once


def _largest_other_time(values: Mapping[str, Value]) -> str:
    """The largest of what else a step does; forward and backward without kernels count as other."""

    def spent(name: str) -> float:
        found = values.get(f"{name}_time_per_step")
        return (found.value if found else None) or 0.0

    between = max(0.0, spent("forward") + spent("backward") - spent("kernel"))
    largest = max(texts.APART_FROM_KERNELS, key=spent)
    if not spent(largest) > 0 or spent(largest) < spent("other") + between:
        return texts.BETWEEN_KERNELS
    what = texts.APART_FROM_KERNELS[largest]
    estimated = values[f"{largest}_time_per_step"].provenance == Provenance.ESTIMATED
    return texts.by_last_kernels(what) if estimated else what


def _narrow_vectors(
    ranks: Sequence[RankEvidence], intensity: float, level: str, limits: Limits, headroom: float
) -> str:
    """Where compute binds and vectors were counted: how many of the FLOPs are narrower than the ceiling's."""
    ceiling = limits.binding(intensity, level)
    if ceiling is None or ceiling.kind != "compute" or headroom < AT_ROOF or not ceiling.width:
        return ""
    widths = widths_of(ranks)
    total = sum(widths.values())
    narrow = {width: flops for width, flops in widths.items() if width < ceiling.width}
    if not total or sum(narrow.values()) < NARROW * total:
        return ""
    most = max(narrow, key=lambda width: narrow[width])
    return texts.narrow_vectors(narrow[most] / total, most, ceiling.width)


def widths_of(ranks: Sequence[RankEvidence]) -> dict[int, float]:
    """FLOPs that hardware counted by vector width in bits; 0 scalar. Those of unknown width are left out."""
    found: dict[int, float] = {}
    for rank in ranks:
        if rank.counted_flops is None:
            continue
        for name, flops in rank.counted_flops.by.items():
            width = name.partition(".")[2]
            if width == "scalar" or width.isdecimal():
                bits = 0 if width == "scalar" else int(width)
                found[bits] = found.get(bits, 0.0) + flops
    return found


def precision_share(ranks: Sequence[RankEvidence], precision: str) -> float | None:
    """Share of the FLOPs of recorded kernels that is in one precision."""
    known = [r.kernels for r in ranks if r.kernels is not None and r.kernels.has_flops]
    total = sum(total_of(k.flops) for k in known)
    none = np.zeros(0, np.int64)
    return sum(total_of(k.by_precision.get(precision, none)) for k in known) / total if total else None
