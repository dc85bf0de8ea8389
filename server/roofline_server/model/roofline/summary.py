"""What one rank, or all ranks of a role, did per step and per second, against the roof.

A rank's evidence is plain arrays; `summarize` turns the evidence of one or more ranks into named values.
Rates of ranks add up; times and per-step values are pooled over all their steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.answers.report import Summary
from roofline.answers.values import Scope, Value

from ...sentences import origins
from ...sentences.wording import joined
from ..between import between
from ..breakdown import breakdown
from ..evidence import RankEvidence
from ..times import times
from .points import against
from .resources import resources
from .roofs import MINIMUM, Limits, main_memory
from .shares import is_bound, of_nodes
from .shares import on_gpu as computes_on_gpu
from .work import counted_flops, or_counted, work


def summarize(
    ranks: Sequence[RankEvidence], limits: Sequence[Limits], scope: Scope, parts: float = 1.0
) -> Summary:
    """The values of docs/metrics.md for these ranks (one, or all of a role). limits: what binds where those
    computed whose FLOPs are known, in the precision of most of these; each place once. parts: of how many
    equal parts of these places they have one."""
    values = {
        **times(ranks, scope),
        **breakdown(ranks, scope),
        **between(ranks, scope),
        **resources(ranks, scope),
        **placing(ranks, scope),
    }
    level, intensity, reached = placed(ranks, values)
    held = against(intensity, reached, level, limits).of_part(parts)
    known = sum(has_flops(ranks))
    part = origins.of_ranks_with_flops(known, len(ranks)) if 0 < known < len(ranks) else ""
    for name, found in (("attainable_flops_per_second", held.attainable), ("roof_share", held.share)):
        values[name] = found._replace(reason=joined(part, found.reason))
    return Summary(values, held.bound, held.why)


def placing(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """Of these values those that `placed` asks for: work, and the bytes and joules that go with it."""
    values = {**work(ranks, scope), **counted_flops(ranks, scope)}
    return values | of_nodes(ranks, scope, values)


def has_flops(ranks: Sequence[RankEvidence]) -> list[bool]:
    """Of each rank, whether its FLOPs are among those that are summed: of recorded kernels, where any rank
    has them, else those that hardware counted."""
    recorded = []
    for rank in ranks:
        k = rank.kernels
        recorded.append(k is not None and k.has_flops and k.is_timed)
    return recorded if any(recorded) else [r.counted_flops is not None for r in ranks]


def placed(ranks: Sequence[RankEvidence], values: Mapping[str, Value]) -> tuple[str, Value, Value]:
    """Where the classic roofline puts them: (level of the bytes, intensity, FLOP/s).

    Traffic of main memory that was counted goes before the bytes of tensors, FLOPs known from kernels before
    those that hardware counted. Cache misses leave out what was prefetched: they go before the bytes of
    tensors only where they are more.
    """
    reached = or_counted(ranks, values["flops_per_second"], values["flops_per_second.measured"])
    counted, least = values["intensity.dram"], values["intensity.minimum"]
    if counted.value is None:
        return MINIMUM, least, reached
    if least.value is not None and counted.value > least.value and is_bound(ranks):
        return MINIMUM, least, reached
    return main_memory("gpu" if on_gpu(ranks) else ""), counted, reached


def on_gpu(ranks: Sequence[RankEvidence]) -> bool:
    """Whether some of them compute on a GPU."""
    return any(map(computes_on_gpu, ranks))
