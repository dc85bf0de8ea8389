"""What one rank, or all ranks of a role, did per step and per second, against the roof.

A rank's evidence is plain arrays; `summarize` turns the evidence of one or more ranks into named values.
Rates of ranks add up; times and per-step values are pooled over all their steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .breakdown import breakdown
from .evidence import RankEvidence
from .points import against
from .resources import resources
from .roofline import Limits
from .shares import of_nodes
from .times import times
from .values import Scope, Value
from .work import counted_flops, work


class Summary(NamedTuple):
    values: dict[str, Value]
    bound: str
    bound_reason: str


def summarize(ranks: Sequence[RankEvidence], limits: Sequence[Limits], scope: Scope) -> Summary:
    """The values of docs/metrics.md for these ranks (one, or all of a role). limits: what binds where they
    computed, in the precision of most of their FLOPs; each place once."""
    values = {
        **times(ranks, scope),
        **breakdown(ranks, scope),
        **work(ranks, scope),
        **resources(ranks, scope),
    }
    values |= counted_flops(ranks, scope)
    values |= of_nodes(ranks, scope, values)
    level, intensity, reached = placed(ranks, values)
    held = against(intensity, reached, level, limits)
    values |= {"attainable_flops_per_second": held.attainable, "roof_share": held.share}
    return Summary(values, held.bound, held.why)


def placed(ranks: Sequence[RankEvidence], values: Mapping[str, Value]) -> tuple[str, Value, Value]:
    """Where the classic roofline puts them: (level of the bytes, intensity, FLOP/s).

    Traffic of main memory that was counted goes before the least there can be, FLOPs known from kernels
    before those that hardware counted.
    """
    known = "dram" if values["intensity.dram"].value is not None else "minimum"
    counted = (
        values["flops_per_second"].value is None and values["flops_per_second.measured"].value is not None
    )
    flops = "flops_per_second.measured" if counted else "flops_per_second"
    level = "hbm" if known == "dram" and on_gpu(ranks) else known
    return level, values[f"intensity.{known}"], values[flops]


def on_gpu(ranks: Sequence[RankEvidence]) -> bool:
    """Whether some of their kernels ran on a GPU."""
    return any(r.kernels is not None and r.kernels.on_gpu for r in ranks)
