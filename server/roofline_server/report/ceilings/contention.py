"""How many ranks of a job compute in one place: each can have no more than its part of the roof there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ...model.evidence import RankEvidence
from ...model.roofline.roofs import Limits
from ...store.view import JobView
from ..evidence.training import training_ranks
from .places import places

Contention = Mapping[tuple[str, str | None], int]  # ranks by host and device


def contention(view: JobView, ranks: Mapping[int, RankEvidence]) -> Contention:
    """ranks: all of the job; those that only serve, or look on, take no part of a roof."""
    computing = training_ranks(ranks)
    for number, rank in ranks.items():
        recorded = rank.kernels is not None and rank.kernels.has_flops and not rank.kernels.rule
        if recorded or rank.counted_flops is not None:
            computing[number] = rank
    found = [place for mine in places(view, computing or ranks).values() for place in mine]
    return Counter((place.host, place.device) for place in found)


def sharing(contention: Contention, limits: Iterable[Limits]) -> int:
    """How many ranks compute in that of these places where most do, at least one."""
    return max((contention.get((limit.host, limit.device), 1) for limit in limits), default=1)
