"""What holds something back, and what would help: one sentence, and nothing that was not counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from roofline.answers.values import Provenance, Value

from .evidence import RankEvidence
from .rates import total_of
from .roofline import MINIMUM, NETWORK, Limits, main_memory, title
from .shares import is_bound, without_traffic
from .stragglers import starved
from .wording import many
from .work import without_bytes

AT_ROOF, ABOVE = 1.1, 0.95  # headroom below which something is at its roof, and above it
NEAR = 5  # headroom up to which it is the roof that holds something back, as far as numbers can tell
FAR = 10  # headroom above which it is not; between the two nobody knows
CAUSES = "few threads, short calls or waiting"
FILLED = 0.8  # share of its steps that kernels fill when it is they that matter
STARVED = 0.3  # share of its steps without a CPU that matters
NARROW = 0.3  # share of FLOPs in narrow vectors worth a word
ONE_STEP = "one step only"
PURE = 0.95  # share of FLOPs in one precision above which the others need no word
# What a step does beside its kernels -> what would help.
ASIDE = {
    "input": "it waits for input: prefetch, or more loader workers",
    "communicate": "it waits for communication: larger batch, overlap, or fewer bytes",
    "wait": "it waits for other ranks: see its stragglers",
    "optimizer": "the optimizer takes the rest: fuse its updates",
}


def sentence(
    headroom: float,
    intensity: float,
    level: str,
    limits: Limits,
    ranks: Sequence[RankEvidence],
    values: Mapping[str, Value],
    sharing: int,
) -> str:
    """limits: of the place that is said to hold it back. sharing: how many ranks compute there."""
    fill = filled(ranks)
    parts = max(1.0, sharing / max(1, len(ranks)))
    lacks = _starved(ranks) if headroom > AT_ROOF * parts else ""
    if fill is not None and fill < FILLED and headroom > AT_ROOF * parts:
        said = f"{_hardly_computing(headroom, fill, parts)}: {lacks or _aside(values)}"
        lacks = ""
    else:
        said = of_work(headroom, intensity, level, limits, parts) + _narrow(
            ranks, intensity, level, limits, headroom / parts
        )
    return "; ".join(filter(None, (said, lacks, _mixed(ranks, limits), _shared(limits, sharing, level))))


def of_work(headroom: float, intensity: float, level: str, limits: Limits, parts: float = 1) -> str:
    """What holds back whatever has this intensity: the ceiling, how far it is, and what would raise it.

    parts: of how many like it that share the roof this is one: it can reach no more than its part.
    """
    ceiling = limits.binding(intensity, level)
    if ceiling is None:
        return limits.lacks(level)
    if headroom < ABOVE:
        return _above(headroom, level, ceiling.kind)
    left = headroom / max(1.0, parts)
    if left > FAR:
        return _far(left, parts, ceiling.name)
    what, advice = _bound(ceiling.kind, left, level, limits)
    said = f"{what}, {_below(headroom, parts)}"
    if left <= NEAR:
        return f"{said}: {advice}"
    return f"at best {said}: {CAUSES} may hold it back, else {advice}"


def _bound(kind: str, left: float, level: str, limits: Limits) -> tuple[str, str]:
    """What binds, and what helps."""
    if kind == "compute":
        if left < AT_ROOF:
            return "compute-bound", "only a cheaper precision or more machines help"
        return "compute-bound", "larger batches or operations fill its units better"
    if kind == "network":
        return "network-bound", "fewer bytes (larger batch, compression) or a faster network"
    where = main_memory(limits.device).upper() if level == MINIMUM else level.upper()
    if_ = " if its tensors come from there" * (level == MINIMUM)
    return f"memory-bound on {where}{if_}", "raise intensity (larger batch, fusion)"


def _below(headroom: float, parts: float) -> str:
    left = headroom / max(1.0, parts)
    if left < AT_ROOF:
        return f"at {_roof(parts)} ({1 / headroom:.0%} of it)" if parts <= 1 else f"at {_roof(parts)}"
    return f"{_times(left)} below {_roof(parts)}"


def _roof(parts: float) -> str:
    return "the roof" if parts <= 1 else f"its part of the roof (1/{parts:.3g} of it)"


def _times(headroom: float) -> str:
    return f"{headroom:.2g}x" if headroom < 10 else f"{headroom:,.0f}x"


def _far(left: float, parts: float, ceiling: str) -> str:
    roof = "its roof" if parts <= 1 else "its part of the roof"
    causes = "few threads, short calls, waiting, or what else runs there"
    return f"{_times(left)} below {roof} ({ceiling}), which is not what holds it back: look for {causes}"


def _above(headroom: float, level: str, kind: str) -> str:
    over = f"{1 / headroom:.2g}x above its roof"
    if kind == "memory" and level == MINIMUM:
        return f"{over}: its data are in caches, whose bandwidth is higher"
    return f"{over}: the ceiling was measured too low (on a busy node?), or something is counted twice"


def _hardly_computing(headroom: float, fill: float, parts: float) -> str:
    reached = parts / headroom / fill
    roof = "the roof" if parts <= 1 else "their part of the roof"
    filling = f"but they fill only {fill:.0%}" if reached >= FILLED / 2 else f"and fill only {fill:.0%}"
    return f"its kernels reach {reached:.0%} of {roof}, {filling} of the step"


def _starved(ranks: Sequence[RankEvidence]) -> str:
    """Where their threads could run and did not: see `stragglers.starved`. "": hardly, or it is not known."""
    shares = [share for r in ranks if (share := _starved_share(r)) is not None]
    lost = sum(shares) / len(shares) if shares else 0.0
    if lost < STARVED:
        return ""
    return f"it lacks CPUs {lost:.0%} of the step: other work has them, or it has more threads than CPUs"


def _starved_share(rank: RankEvidence) -> float | None:
    """Of a step the part in which the rank lacked a CPU."""
    if rank.cpu_ns is None or rank.cpu_wait is None or not len(rank.steps.step):
        return None
    step = np.array([float(np.mean(rank.steps.end_ns - rank.steps.begin_ns))])
    ran, waited = (np.array([c.per_window]) for c in (rank.cpu_ns, rank.cpu_wait))
    share = float((starved(step, ran, waited) / step)[0]) if step[0] > 0 else float("nan")
    return share if share == share else None


def filled(ranks: Sequence[RankEvidence]) -> float | None:
    """Share of completely watched steps in which kernels ran; None: not known, or they ran side by side."""
    known = [
        r.kernels for r in ranks if r.kernels is not None and r.kernels.complete.any() and len(r.steps.step)
    ]
    lasted = sum(total_of(k.duration_ns[k.complete]) for k in known)
    ran = sum(total_of(k.kernel_ns[k.complete]) for k in known)
    return ran / lasted if 0 < ran <= lasted else None


def _aside(values: Mapping[str, Value]) -> str:
    """The largest of what else a step does; forward and backward without kernels count as other."""

    def spent(name: str) -> float:
        found = values.get(f"{name}_time_per_step")
        return (found.value if found else None) or 0.0

    between = max(0.0, spent("forward") + spent("backward") - spent("kernel"))
    largest = max(ASIDE, key=spent)
    if spent(largest) > 0 and spent(largest) >= spent("other") + between:
        guessed = values[f"{largest}_time_per_step"].provenance == Provenance.ESTIMATED
        return f"by when its last kernels ended, {ASIDE[largest]}" if guessed else ASIDE[largest]
    return "the time between them counts more (launches, Python, operations that are not modelled)"


def _narrow(
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
    name = "scalar" if most == 0 else f"{most}-bit"
    wide = f"vectorise, or let the library use {ceiling.width} bits"
    return f"; {narrow[most] / total:.0%} of its FLOPs are {name}: {wide}"


def widths_of(ranks: Sequence[RankEvidence]) -> dict[int, float]:
    """FLOPs that hardware counted by vector width in bits; 0 scalar. Those of unknown width are left out."""
    found: dict[int, float] = {}
    for r in ranks:
        for name, flops in (r.counted_flops.by if r.counted_flops else {}).items():
            width = name.partition(".")[2]
            if width == "scalar" or width.isdecimal():
                bits = 0 if width == "scalar" else int(width)
                found[bits] = found.get(bits, 0.0) + flops
    return found


def _mixed(ranks: Sequence[RankEvidence], limits: Limits) -> str:
    share = precision_share(ranks, limits.precision)
    if share is None or share >= PURE:
        return ""
    return f"{share:.0%} of its FLOPs are {title(limits.precision)}, whose roof this is"


def precision_share(ranks: Sequence[RankEvidence], precision: str) -> float | None:
    """Of the FLOPs of recorded kernels those in one precision."""
    known = [r.kernels for r in ranks if r.kernels is not None and r.kernels.has_flops]
    total = sum(total_of(k.flops) for k in known)
    none = np.zeros(0, np.int64)
    return sum(total_of(k.by_precision.get(precision, none)) for k in known) / total if total else None


def _shared(limits: Limits, sharing: int, level: str) -> str:
    if sharing < 2:
        return ""
    if limits.device and level == NETWORK:
        return f"the node's network is shared by {sharing} ranks"
    what = "GPU" if limits.device else "node"
    return f"the {what}'s roof is shared by {sharing} ranks"


def incomplete(ranks: Sequence[RankEvidence], values: Mapping[str, Value], level: str) -> str:
    """What the counts behind a point lack; "": nothing that is known of."""
    return "; ".join((*_of_kernels(ranks), *_of_counters(ranks, values), *_of_bytes(ranks, level)))


def not_modelled(calls: int) -> str:
    verb = "is" if calls == 1 else "are"
    return f"{many(calls, 'kernel call')} {verb} not modelled (pooling, normalisation, element-wise)"


def _of_kernels(ranks: Sequence[RankEvidence]) -> list[str]:
    known = [r.kernels for r in ranks if r.kernels is not None and r.kernels.has_flops]
    found = []
    if unmodelled := sum(int(k.unmodelled.sum()) for k in known):
        found.append(not_modelled(unmodelled))
    windows = sum(len(k.complete) for k in known)
    cut = windows - sum(int(k.complete.sum()) for k in known)
    if cut:
        found.append(f"{cut} of {windows} steps were not watched from begin to end and are left out")
    once = [r.key for r in ranks if _steps_known(r) == 1]
    if once:
        found.append(ONE_STEP if len(ranks) == 1 else f"of {', '.join(once)} {ONE_STEP}")
    lacking = sum(1 for r in ranks if r.kernels is None or not r.kernels.has_flops)
    if known and lacking:
        found.append(f"of {lacking} of {len(ranks)} ranks no FLOPs are known")
    return found


def _steps_known(rank: RankEvidence) -> int:
    """Steps that its FLOPs are of; 0: none, or those of its life without steps."""
    k = rank.kernels
    if not len(rank.steps.step):
        return 0
    if k is not None and k.has_flops:
        return int(k.complete.sum())
    return rank.counted_flops.counter.windows if rank.counted_flops is not None else 0


def _of_counters(ranks: Sequence[RankEvidence], values: Mapping[str, Value]) -> list[str]:
    """Where FLOPs are those that hardware counted."""
    if values["flops_per_second"].value is not None:
        return []
    known = [r.counted_flops for r in ranks if r.counted_flops is not None]
    found = ["AMX FLOPs are not counted"] * any(k.amx_busy for k in known)
    shares = [k.coverage for k in known if k.coverage is not None]
    if shares and min(shares) < 0.995:
        found.append(f"its counters counted {min(shares):.0%} of the time (multiplexed) and are scaled up")
    return found


def _of_bytes(ranks: Sequence[RankEvidence], level: str) -> list[str]:
    if level == "dram":
        few = ["DRAM bytes are cache misses, a lower bound"] * is_bound(ranks)
        unknown = without_traffic(ranks)
        return few + [f"of {unknown} of {len(ranks)} ranks no DRAM traffic is known"] * bool(unknown)
    if level not in (MINIMUM, NETWORK):
        return []
    sizes = without_bytes([r.kernels for r in ranks if r.kernels is not None and r.kernels.has_flops])
    return [f"{sizes}: the intensity is that of the others"] * (bool(sizes) and level == MINIMUM)
