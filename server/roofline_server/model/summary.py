"""What one rank, or all ranks of a role, did per step and per second, against the roof.

A rank's evidence is plain arrays; `summarize` turns the evidence of one or more ranks into named values.
Rates of ranks add up; times and per-step values are pooled over all their steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .breakdown import breakdown
from .evidence import RankEvidence
from .resources import resources
from .roofline import Roof
from .shares import of_nodes
from .times import times
from .values import Provenance, Scope, Value, value
from .work import counted_flops, dominant_precision, work


class Summary(NamedTuple):
    values: dict[str, Value]
    bound: str
    bound_reason: str


def summarize(ranks: Sequence[RankEvidence], roofs: Mapping[str, Roof | None], scope: Scope) -> Summary:
    """The values of docs/metrics.md for these ranks (one, or all of a role). roofs: by host, for the
    precision these ranks compute in."""
    values = {
        **times(ranks, scope),
        **breakdown(ranks, scope),
        **work(ranks, scope),
        **resources(ranks, scope),
    }
    values |= counted_flops(ranks, scope)
    values |= of_nodes(ranks, scope, values)
    roofline, bound, reason = _against_roof(ranks, roofs, values)
    return Summary({**values, **roofline}, bound, reason)


def placed(values: Mapping[str, Value]) -> tuple[str, Value, Value]:
    """Where the roofline puts this: (level of the bytes, intensity, FLOP/s).

    DRAM traffic that was counted goes before the least there can be, FLOPs known from kernels before those
    that hardware counted.
    """
    level = "dram" if values["intensity.dram"].value is not None else "minimum"
    flops = (
        "flops_per_second" if values["flops_per_second"].value is not None else "flops_per_second.measured"
    )
    return level, values[f"intensity.{level}"], values[flops]


def _against_roof(
    ranks: Sequence[RankEvidence], roofs: Mapping[str, Roof | None], values: Mapping[str, Value]
) -> tuple[dict[str, Value], str, str]:
    _, x, y = placed(values)
    intensity, reached = x.value, y.value
    hosts = dict.fromkeys(r.host for r in ranks)
    if intensity is None or reached is None:
        return _no_roof((values["flops_per_second"] if reached is None else x).reason)
    if any(r.kernels is not None and r.kernels.on_gpu for r in ranks):
        return _no_roof("its kernels ran on a GPU, of which no ceilings are known")
    found = [roofs.get(host) for host in hosts]
    if any(roof is None for roof in found) or not found:
        lacking = [host for host, roof in zip(hosts, found, strict=True) if roof is None]
        return _no_roof(_why_no_roof(ranks, lacking))
    known = [roof for roof in found if roof is not None]
    attainable = sum(roof.attainable(intensity) for roof in known)
    note = "of the whole node" if len(known) == 1 else f"of all {len(known)} nodes of the role"
    bounds = dict.fromkeys(roof.binding(intensity).name for roof in known)
    result = {
        "attainable_flops_per_second": value(
            attainable, "FLOP/s", Provenance.ESTIMATED, Scope.NODE, reason=note
        ),
        "roof_share": value(reached / attainable, "1", Provenance.ESTIMATED, Scope.NODE, reason=note),
    }
    return result, ", ".join(bounds), ""


def _why_no_roof(ranks: Sequence[RankEvidence], hosts: Sequence[str]) -> str:
    precision = dominant_precision([r.kernels for r in ranks if r.kernels is not None])
    if not precision:
        return "most FLOPs are neither FP32 nor FP64, and no ceiling was measured for them"
    return f"no ceilings of {', '.join(hosts)}: run `roofline-agent calibrate` there"


def _no_roof(reason: str) -> tuple[dict[str, Value], str, str]:
    absent = {
        "attainable_flops_per_second": Value(None, "FLOP/s", reason=reason),
        "roof_share": Value(None, "1", reason=reason),
    }
    return absent, "", reason
