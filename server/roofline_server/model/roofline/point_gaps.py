"""What the counts behind a point of the roofline lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.answers.values import Value

from ...sentences import points as texts
from ...sentences.wording import joined
from ..evidence import RankEvidence
from .roofs import MINIMUM
from .shares import is_bound, without_traffic
from .work import ALL_COUNTED, without_bytes


def incomplete(ranks: Sequence[RankEvidence], values: Mapping[str, Value], level: str) -> str:
    """What the counts behind a point lack; "": nothing that is known of."""
    return joined(
        *_incomplete_kernels(ranks), *_incomplete_counters(ranks, values), *_incomplete_bytes(ranks, level)
    )


def one_step_only(ranks: Sequence[RankEvidence]) -> list[str]:
    """The ranks whose FLOPs are those of a single step."""
    found = []
    for rank in ranks:
        k = rank.kernels
        if not len(rank.steps.step):
            continue
        if k is not None and k.has_flops:
            steps = k.seen
        else:
            steps = rank.counted_flops.counter.windows if rank.counted_flops is not None else 0
        if steps == 1:
            found.append(rank.key)
    return found


def _incomplete_kernels(ranks: Sequence[RankEvidence]) -> list[str]:
    known = [r.kernels for r in ranks if r.kernels is not None and r.kernels.has_flops]
    found = []
    unmodelled = sum(int(k.unmodelled.sum()) for k in known)
    if unmodelled:
        found.append(texts.not_modelled(unmodelled))
    windows = sum(len(k.complete) for k in known)
    cut = windows - sum(int(k.complete.sum()) for k in known)
    if cut:
        found.append(texts.cut_steps(cut, windows))
    once = one_step_only(ranks)
    if once:
        found.append(texts.ONE_STEP if len(ranks) == 1 else texts.one_step_of(once))
    if known and len(known) < len(ranks):
        found.append(texts.no_flops_of(len(ranks) - len(known), len(ranks)))
    return found


def _incomplete_counters(ranks: Sequence[RankEvidence], values: Mapping[str, Value]) -> list[str]:
    """Where FLOPs are those that hardware counted."""
    if values["flops_per_second"].value is not None:
        return []
    known = [r.counted_flops for r in ranks if r.counted_flops is not None]
    found = []
    if any(k.amx_busy for k in known):
        found.append(texts.NO_AMX)
    shares = [k.coverage for k in known if k.coverage is not None]
    if shares and min(shares) < ALL_COUNTED:
        found.append(texts.multiplexed(min(shares)))
    return found


def _incomplete_bytes(ranks: Sequence[RankEvidence], level: str) -> list[str]:
    found = []
    if level == "dram":
        if is_bound(ranks):
            found.append(texts.CACHE_MISSES)
        unknown = without_traffic(ranks)
        if unknown:
            found.append(texts.no_traffic_of(unknown, len(ranks)))
    elif level == MINIMUM:
        share = without_bytes([r.kernels for r in ranks if r.kernels is not None and r.kernels.has_flops])
        if share:
            found.append(texts.no_bytes_of_some(share))
    return found
