"""Where the traced steps of ranks go by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.answers.values import Provenance, Scope, value

from ...correlate.layers import LayerTotal, LayerTotals
from ...model.roofline import compose
from ...model.roofline.compose import Part
from ...sentences import layers as texts

KIND = "layers_by_time"
MOST_LAYERS = 20  # that are named
NS = 1e9


def parts_of(ranks: Sequence[LayerTotals], scope: Scope) -> list[Part]:
    """Mean seconds of a traced step in each layer, those that took most first, and when nothing ran: they
    add up to the step. Nothing where no rank was traced with layers."""
    steps = sum(one.steps for one in ranks)
    if not steps:
        return []
    pooled = _pooled(ranks)
    shown, rest = list(pooled)[:MOST_LAYERS], list(pooled)[MOST_LAYERS:]
    seconds = {name or texts.NO_LAYER: pooled[name].step_ns / NS / steps for name in shown}
    words = {name or texts.NO_LAYER: _words(pooled[name], steps) for name in shown}
    if rest:
        seconds[texts.other_layers(len(rest))] = sum(pooled[name].step_ns for name in rest) / NS / steps
    seconds[texts.NOTHING_RAN] = sum(one.idle_ns for one in ranks) / NS / steps
    words[texts.NOTHING_RAN] = texts.WHY_NOTHING_RAN
    how = texts.mean_over(len(ranks), steps)
    parts = {
        name: value(taken, "s", Provenance.MEASURED, scope, reason=how) for name, taken in seconds.items()
    }
    return compose.parted(parts, words)


def _pooled(ranks: Sequence[LayerTotals]) -> Mapping[str, LayerTotal]:
    """By layer, of all these ranks, most time first."""
    found: dict[str, LayerTotal] = {}
    for rank in ranks:
        for one in rank.layers:
            known = found.get(one.layer)
            found[one.layer] = one if known is None else _added(known, one)
    return dict(sorted(found.items(), key=lambda item: -item[1].step_ns))


def _added(a: LayerTotal, b: LayerTotal) -> LayerTotal:
    flops = None if a.flops is None and b.flops is None else (a.flops or 0.0) + (b.flops or 0.0)
    return a._replace(
        step_ns=a.step_ns + b.step_ns, calls=a.calls + b.calls, call_ns=a.call_ns + b.call_ns, flops=flops
    )


def _words(one: LayerTotal, steps: int) -> str:
    rate = one.flops / one.call_ns * NS if one.flops and one.call_ns else None
    return texts.calls(one.calls / steps, rate)
