"""How many ranks of a job compute in one place: each can have no more than its part of the roof there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ...model.evidence import RankEvidence
from ...model.roofline import Limits
from ...store.view import JobView
from ..evidence.barriers import trains
from ..ranks.members import roles_aside
from .places import places

Contention = Mapping[tuple[str, str | None], int]  # ranks by host and device


def contention(view: JobView, ranks: Mapping[int, RankEvidence]) -> Contention:
    """ranks: all of the job; those that only serve, or look on, take no part of a roof."""
    aside = roles_aside({rank.role for rank in ranks.values()})
    computing = {}
    for number, rank in ranks.items():
        recorded = rank.kernels is not None and rank.kernels.has_flops and not rank.kernels.rule
        if recorded or rank.counted_flops is not None or trains(rank, aside):
            computing[number] = rank
    found = places(view, computing or ranks)
    return Counter((place.host, place.device) for mine in found.values() for place in mine)


def sharing(contention: Contention, limits: Iterable[Limits]) -> int:
    """How many ranks compute in that of these places where most do, at least one."""
    return max((contention.get((limit.host, limit.device), 1) for limit in limits), default=1)
