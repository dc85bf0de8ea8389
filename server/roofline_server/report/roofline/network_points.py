"""Points of the network roofline, and the batches from which on work hides communication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.answers.roofline import Crossing, RoofPoint
from roofline.answers.values import Value

from ...model.evidence import RankEvidence
from ...model.roofline import network
from ...model.roofline.network_load import load
from ...model.roofline.roofs import NETWORK
from ...store.view import JobView
from ..ceilings.limits import of_roles
from .groups import PointGroup


def over_network(group: PointGroup, local: network.LocalShare) -> Value:
    return network.intensity(group.evidence, group.values, _communicated(group, local), group.scope)


def by_its_bytes(group: PointGroup, made: RoofPoint) -> RoofPoint:
    """This point, of ranks without known FLOPs or of servers with how near their bytes come to what the
    network does."""
    serving = all(rank.serving for rank in group.evidence)
    if (made.flops_per_second.value and not serving) or not group.limits:
        return made
    moved = _communicated(group, group.local)
    found = load(group.evidence, group.values, moved, group.local, group.limits[0], group.mates)
    return made if found is None else made._replace(words=found.words, headroom=found.headroom)


def _communicated(group: PointGroup, local: network.LocalShare) -> Value:
    return network.communicated(group.evidence, group.values, group.scope, group.layout, local)


def crossings(
    view: JobView, groups: Sequence[PointGroup], every: Mapping[int, RankEvidence]
) -> list[Crossing]:
    """Crossings of what trains: who serves has no examples of its own."""
    found = []
    for group in groups:
        if all(rank.serving for rank in group.evidence) or not group.limits:
            continue
        mates = {n: r for n, r in every.items() if r.host == group.who.host}
        node = of_roles(view, mates) or group.limits
        lacks = next((limits.lacks(NETWORK) for limits in node if limits.lacks(NETWORK)), "")
        intensity = over_network(group, group.among_ranks)
        label, role = group.who.label, group.who.role
        found.append(network.crossing(label, role, group.evidence, intensity, network.ridge(node), lacks))
    return found
