"""A note where most of a job's time passed before its first step, and who began long after the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...correlate.steps import OWN
from ...model.evidence import NS
from ...records import rows
from ...sentences import notes as texts
from ...store.view import JobView
from ..evidence.tables import where
from ..ranks.members import extent, name_of, on_clock

SHARE = 0.5  # of the time of the job
LEAST_S = 30.0  # less is how long frameworks take to load


def slow_start_notes(view: JobView) -> list[str]:
    own = where(view.steps.get("steps", {}), "window", OWN)
    if not rows(own):
        return []
    begin, end = extent(view)
    before, whole = (int(own["begin_ns"].min()) - begin) / NS, (end - begin) / NS
    if not _is_slow(before, whole):  # nearly always
        return []
    stepping = set(np.unique(own["rank"]).tolist())
    starts: dict[str, float] = {}  # of each rank that steps, its first process: s after the job's begin
    for who in view.process_lifetimes:
        if who.rank in stepping:
            rank, start = name_of(view, who.rank), (on_clock(view, who)[0] - begin) / NS
            starts[rank] = min(start, starts.get(rank, start))
    return slow_start(before, whole, starts)


def slow_start(before: float, whole: float, starts: Mapping[str, float]) -> list[str]:
    """before: seconds until the first step; whole: of the job; starts: of each rank, s after the first."""
    if not _is_slow(before, whole):
        return []
    last = max(starts, key=lambda rank: starts[rank], default="")
    behind = starts[last] - min(starts.values()) if last else 0.0
    return [texts.slow_start(before, whole, last if behind > before / 2 else "", behind)]


def _is_slow(before: float, whole: float) -> bool:
    return before >= LEAST_S and before >= SHARE * whole
