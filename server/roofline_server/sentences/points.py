"""What holds something back, and what would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roofline.texts import listed

from .wording import are, many, number, times, title

APART_FROM_KERNELS: Mapping[str, str] = {  # by what a step does apart from its kernels
    "input": "it waits for input: prefetch, or more loader workers",
    "communicate": "it waits for communication: larger batch, overlap, or fewer bytes",
    "wait": "it waits for other ranks: see its stragglers",
    "optimizer": "the optimizer takes the rest: fuse its updates",
}
BETWEEN_KERNELS = "the time between them counts more (launches, Python, operations that are not modelled)"


class Bound(NamedTuple):
    """What binds, and what would help."""

    what: str
    advice: str


COMPUTE_AT_ROOF = Bound("compute-bound", "only a cheaper precision or more machines help")
COMPUTE = Bound("compute-bound", "larger batches or operations fill its units better")
NETWORK = Bound("network-bound", "fewer bytes (larger batch, compression) or a faster network")


def memory(level: str) -> Bound:
    return Bound(f"memory-bound on {level.upper()}", "raise intensity (larger batch, fusion)")


def memory_of_tensors(level: str) -> Bound:
    """Where bytes are those of tensors, which may lie in caches."""
    bound = memory(level)
    return bound._replace(what=f"{bound.what} if its tensors come from there")


# -- against the roof ---------------------------------------------------------------------------------------


def bound_by(bound: Bound, distance: str) -> str:
    return f"{bound.what}, {distance}: {bound.advice}"


def perhaps_bound_by(bound: Bound, distance: str) -> str:
    check = "check threads, small kernels and stalls first"
    return f"at best {bound.what}, {distance}: {check}, then {bound.advice}"


def at_roof(headroom: float) -> str:
    return f"at the roof ({1 / headroom:.0%} of it)"


def at_part_of_roof(parts: float) -> str:
    return f"at {_part(parts)}"


def below_roof(left: float, parts: float) -> str:
    """left: headroom within its part of the roof, which is 1/parts."""
    return f"{times(left)} below {_part(parts)}"


def _part(parts: float) -> str:
    return "the roof" if parts <= 1 else f"its part of the roof (1/{number(parts)} of it)"


def far_below_roof(left: float, parts: float, ceiling: str) -> str:
    roof = "its roof" if parts <= 1 else "its part of the roof"
    check = "check threads, small kernels and stalls before raising the batch size"
    return f"{times(left)} below {roof} ({ceiling}): far below peak, {check}"


def below_roof_by_updates(left: float, parts: float, ceiling: str) -> str:
    """Of a parameter server."""
    roof = "its roof" if parts <= 1 else "its part of the roof"
    return f"{times(left)} below {roof} ({ceiling}): it computes only when gradients arrive"


def above_roof_in_caches(headroom: float) -> str:
    return f"{times(1 / headroom)} above its roof: its data are in caches, whose bandwidth is higher"


def above_roof(headroom: float) -> str:
    return (
        f"{times(1 / headroom)} above its roof: the ceiling was measured too low (on a busy node?), or "
        "something is counted twice"
    )


def hardly_computing(reached: float, filled: float, parts: float, well: bool, why: str) -> str:
    """reached: share of their part of the roof; filled: share of the step. well: this roof is hardly what
    holds the kernels back."""
    roof = "the roof" if parts <= 1 else "their part of the roof"
    filling = f"but they fill only {filled:.0%}" if well else f"and fill only {filled:.0%}"
    return f"its kernels reach {reached:.0%} of {roof}, {filling} of the step: {why}"


def lacks_cpus(share: float) -> str:
    return f"runnable but not scheduled for {share:.0%} of the step (CPU contention)"


def by_last_kernels(what: str) -> str:
    """Where what a step does apart from its kernels is an estimate."""
    return f"by when its last kernels ended, {what}"


def narrow_vectors(share: float, bits: int, widest: int) -> str:
    """bits: of most of the FLOPs in narrow vectors; 0: scalar."""
    name = "scalar" if bits == 0 else f"{bits}-bit"
    return f"; {share:.0%} of its FLOPs are {name}: vectorise, or let the library use {widest} bits"


def mixed_precisions(share: float, precision: str) -> str:
    return f"{share:.0%} of its FLOPs are {title(precision)}, whose roof this is"


def shared_roof(what: str, ranks: int) -> str:
    """what: "GPU", "node"."""
    return f"the {what}'s roof is shared by {ranks} ranks"


def shared_network(ranks: int) -> str:
    return f"the node's network is shared by {ranks} ranks"


# -- what the counts behind a point lack --------------------------------------------------------------------

ONE_STEP = "one step only"
NO_AMX = "AMX FLOPs are not counted"
CACHE_MISSES = "DRAM bytes are cache misses, a lower bound"
_LESS_THAN_ONE = "less than 1 kernel call"


def not_modelled(calls: int) -> str:
    return f"{are(calls, 'kernel call')} not modelled (pooling, normalisation, element-wise)"


def cut_steps(cut: int, windows: int) -> str:
    were, are_ = ("was", "is") if cut == 1 else ("were", "are")
    return f"{cut} of {many(windows, 'step')} {were} not watched from begin to end and {are_} left out"


def one_step_of(ranks: Sequence[str]) -> str:
    return f"{ONE_STEP} of {listed(ranks)}"


def no_flops_of(lacking: int, ranks: int) -> str:
    return f"no FLOPs are known for {lacking} of {ranks} ranks"


def multiplexed(share: float) -> str:
    scaled = "scaled up where multiplexed, not for cores that have no event for it"
    return f"its counters counted {share:.0%} of the time: {scaled}"


def no_traffic_of(lacking: int, ranks: int) -> str:
    return f"no DRAM traffic is known for {lacking} of {ranks} ranks"


def no_bytes_of(share: float) -> str:
    """share: of the FLOPs."""
    how_many = f"{share:.0%}" if share >= 0.01 else "less than 1%"
    return f"no bytes are known for kernels with {how_many} of the FLOPs"


def no_bytes_of_some(share: float) -> str:
    return f"{no_bytes_of(share)}: the intensity is that of the others"


def not_modelled_calls(calls: int) -> str:
    """calls: of a step, rounded; 0: fewer than one."""
    some = are(calls, "kernel call") if calls else f"{_LESS_THAN_ONE} is"
    return f"{some} not modelled"


def no_bytes_of_calls(calls: int) -> str:
    """calls: as of `not_modelled_calls`."""
    some = many(calls, "kernel call") if calls else _LESS_THAN_ONE
    return f"no bytes are known for {some}: the intensity is that of the others"


def alone(words: str) -> str:
    """Of a phase whose time is not known."""
    return f"over the time of its kernels alone: {words}"
