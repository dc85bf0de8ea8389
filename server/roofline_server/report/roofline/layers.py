"""Points of layers: the FLOPs of a layer's calls in the traced steps over the time that they took."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.answers.roofline import RoofPoint

from ...correlate.layers import LayerTotal
from ...model.roofline.points import Named
from ...model.roofline.roofs import MINIMUM
from ...records import PRECISIONS
from ...sentences import layers as texts
from ...sentences import rooflines as roof_texts
from ..ceilings.limits import of_rank
from ..layers.totals import layer_totals
from .kernel_sums import CallsAsked, KernelSum, points_on

MOST_POINTS = 2000


def of_layers(asked: CallsAsked) -> tuple[list[RoofPoint], list[str]]:
    """A point for each layer of a role, and notes."""
    evidence = asked.evidence
    totals = layer_totals(asked.store, asked.view, asked.steps, list(evidence))
    if not totals:
        return [], [texts.NO_LAYERS]
    pooled: dict[tuple[str, str, bool], list[tuple[int, LayerTotal]]] = {}
    for number, found in totals.items():
        for one in found.layers:
            pooled.setdefault((evidence[number].role, one.layer, one.on_gpu), []).append((number, one))
    made: list[RoofPoint] = []
    without_s = 0.0
    for (role, layer, on_gpu), mine in list(pooled.items())[:MOST_POINTS]:
        work = _sum_of([one for _, one in mine])
        if not work.flops:
            without_s += 0.0 if layer.startswith("(") else work.time_ns / 1e9  # these are no layers
            continue
        number, longest = max(mine, key=lambda one: one[1].flops or 0.0)
        limits = of_rank(asked.view, number, PRECISIONS[longest.precision], on_gpu)
        who = Named(layer or texts.NO_LAYER, "layer", role, "", limits.host)
        made += points_on(limits, asked, who, work)
    notes = [texts.of_steps({evidence[n].key: found.steps for n, found in totals.items()})]
    notes += [texts.layers_without_flops(without_s)] if without_s > 0 else []
    notes += [roof_texts.ONE_RANKS_KERNELS] if len(totals) > 1 else []
    return made, notes


def _sum_of(totals: Sequence[LayerTotal]) -> KernelSum:
    """Calls without bytes count for the rate alone."""
    moved = [one.moved for one in totals if one.moved is not None]
    flops, sized = sum(one.flops or 0.0 for one in totals), sum(one.sized_flops for one in totals)
    return KernelSum(
        time_ns=sum(one.call_ns for one in totals),
        calls=sum(one.calls for one in totals),
        flops=sized if moved else flops,
        bytes={MINIMUM: sum(moved) if moved else None},
        on_gpu=any(one.on_gpu for one in totals),
        counted=any(one.counted for one in totals),
        spread=None,
        unknown=sum(one.unknown for one in totals),
        more=flops - sized if moved else 0.0,
        unsized=sum(one.unsized for one in totals) if moved else 0,
    )
