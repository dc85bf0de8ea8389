"""How many ranks of a job compute in one place: each can have no more than its part of the roof there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ...model.evidence import RankEvidence
from ...model.roofline import Limits
from ...store.view import JobView
from ..ceilings.roofs import places
from ..evidence.barriers import trains

Crowd = Mapping[tuple[str, str | None], int]  # by host and device


def crowd(view: JobView, ranks: Mapping[int, RankEvidence]) -> Crowd:
    """ranks: all of the job; those that only serve, or look on, take no part of a roof."""
    some = {number: rank for number, rank in ranks.items() if _computes(rank)} or ranks
    return Counter((place.host, place.device) for mine in places(view, some).values() for place in mine)


def _computes(rank: RankEvidence) -> bool:
    recorded = rank.kernels is not None and rank.kernels.has_flops
    return recorded or rank.counted_flops is not None or trains(rank)


def sharing(there: Crowd, limits: Iterable[Limits]) -> int:
    """Ranks in the fullest of these places, at least one."""
    return max((there.get((limit.host, limit.device), 1) for limit in limits), default=1)
