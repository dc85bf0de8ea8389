"""How many ranks of a job compute in one place: each can have no more than its part of the roof there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ..model.evidence import RankEvidence
from ..model.roofline import Limits
from ..store.view import JobView
from .roofs import places

Crowd = Mapping[tuple[str, str | None], int]  # by host and device


def crowd(view: JobView, ranks: Mapping[int, RankEvidence]) -> Crowd:
    """ranks: all of the job."""
    return Counter((place.host, place.device) for mine in places(view, ranks).values() for place in mine)


def sharing(there: Crowd, limits: Iterable[Limits]) -> int:
    """Ranks in the fullest of these places, at least one."""
    return max((there.get((limit.host, limit.device), 1) for limit in limits), default=1)
