"""How it can be seen that the ranks of a job wait for each other, and for how long each does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...model import barrier
from ...model.breakdown import COMMUNICATE, phase, seconds
from ...model.evidence import NS, RankEvidence
from ...model.intervals import LEAST_STEPS
from ...records import ABSENT, Floats
from ...sentences import waits as texts
from .training import training_ranks

KNOWN_SHARE = 0.9  # of the steps of every rank; else what is seen of it does not count


class Barriers(NamedTuple):
    """The steps of the ranks that train side by side. kind: see model.breakdown.BARRIERS; "": waits are not
    seen, for the reason `why_not`, and there are no steps here."""

    ranks: list[int]  # numbers, of the columns
    kind: str
    why_not: str
    grid: barrier.Grid
    held: Floats  # seconds that each rank was held at the barrier of each step, (steps, ranks)


def barriers(evidence: Mapping[int, RankEvidence], mode: str) -> Barriers:
    """evidence: of all ranks of a job, in the order of the columns."""
    side_by_side = training_ranks(evidence)
    ranks = list(side_by_side.values())
    kind, why_not = _kind_of_barrier(ranks, mode, any(r.role == "ps" for r in evidence.values()))
    # Ranks that step independently share no steps: there is nothing to put side by side.
    grid = barrier.align([rank.steps for rank in ranks] if kind else [])
    if not kind:
        held: Floats = np.zeros((0, len(ranks)))
    elif kind == "join":
        held = barrier.held_by_join(grid, [rank.steps for rank in ranks])
    elif kind == "communicate":
        held = grid.place([phase(rank, COMMUNICATE) for rank in ranks])
    else:
        after_last = []  # from the end of a step's last kernel
        for rank in ranks:
            last = rank.columns["kernels.last_ns"]
            after = np.maximum(0, rank.steps.end_ns - last) / NS
            after_last.append(np.where(last == ABSENT, np.nan, after))
        held = grid.place(after_last)
    return Barriers(list(side_by_side), kind, why_not, grid, held)


def with_waits(evidence: Mapping[int, RankEvidence], found: Barriers) -> dict[int, RankEvidence]:
    """The evidence of all ranks of a job, with what each was held at barriers and waited there."""
    known = dict(evidence)
    if not found.kind:
        for number in found.ranks:
            reasons = {**known[number].reasons, "wait": found.why_not}
            known[number] = known[number]._replace(reasons=reasons)
        return known
    waits = barrier.waits(found.held)
    if found.grid.is_whole:
        # A row a rank, so that the times of each lie together.
        columns = zip(
            found.ranks, np.ascontiguousarray(found.held.T), np.ascontiguousarray(waits.T), strict=True
        )
        return known | {
            number: known[number]._replace(held=held, wait=wait, barrier=found.kind)
            for number, held, wait in columns
        }
    for column, number in enumerate(found.ranks):
        rank = known[number]
        there = found.grid.at[:, column] >= 0
        own = found.grid.at[there, column]  # the rank's steps, in their own order
        held = np.full(len(rank.steps.step), np.nan)
        held[own] = found.held[there, column]
        wait = np.full(len(rank.steps.step), np.nan)
        wait[own] = waits[there, column]
        known[number] = rank._replace(held=held, wait=wait, barrier=found.kind)
    return known


def seldom_seen(evidence: Mapping[int, RankEvidence], found: Barriers) -> tuple[int, int] | None:
    """In how many of how many steps it was seen how long each rank was held, where kernels of so few were
    recorded that this says nothing; None: it was seen often enough, or there are few steps."""
    if found.kind != "kernels":
        return None
    seen = int(np.isfinite(found.held).all(axis=1).sum())
    steps = min(len(evidence[number].steps.step) for number in found.ranks)
    return (seen, steps) if seen < LEAST_STEPS <= steps else None


def _kind_of_barrier(ranks: Sequence[RankEvidence], mode: str, has_servers: bool) -> tuple[str, str]:
    """(kind of barrier; "" and why there is none that could be seen)."""
    if len(ranks) < 2:
        return "", texts.ALONE
    if mode != "synchronous":
        return "", texts.INDEPENDENT
    if all(_mostly_known(phase(rank, COMMUNICATE)) for rank in ranks):
        return "communicate", ""
    if has_servers:
        return "join", ""
    if all(_last_kernels_known(rank) for rank in ranks):
        return "kernels", ""
    return "", texts.NOT_SEEN


def _last_kernels_known(rank: RankEvidence) -> bool:
    """Of its steps, or of those of its sample: all ranks of a job record the same ones."""
    column = seconds(rank, "kernels.last_ns")
    if column is None or rank.kernels is None or not rank.kernels.is_sampled:
        return _mostly_known(column)
    seen = rank.kernels.seen
    return seen > 0 and int((~np.isnan(column)).sum()) >= KNOWN_SHARE * seen


def _mostly_known(column: Floats | None) -> bool:
    return column is not None and bool(np.mean(~np.isnan(column)) >= KNOWN_SHARE)
