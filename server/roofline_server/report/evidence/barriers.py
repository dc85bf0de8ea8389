"""How it can be seen that the ranks of a job wait for each other, and for how long each does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...model import barrier
from ...model.breakdown import COMMUNICATE, phase, seconds
from ...model.evidence import NS, RankEvidence
from ...records import ABSENT, Floats

KNOWN_SHARE = 0.9  # of the steps of every rank; else its word does not count


def with_waits(evidence: Mapping[int, RankEvidence], mode: str) -> dict[int, RankEvidence]:
    """The evidence of all ranks of a job, with what each was held at barriers and waited there."""
    training = {number: rank for number, rank in evidence.items() if trains(rank)}
    kind, why_not = how_seen(list(training.values()), mode, any(r.role == "ps" for r in evidence.values()))
    found = dict(evidence)
    if not kind:
        for number, rank in training.items():
            found[number] = rank._replace(reasons={**rank.reasons, "wait": why_not})
        return found
    grid = barrier.align([rank.steps for rank in training.values()])
    held = held_in(grid, list(training.values()), kind)
    waits = barrier.waits(held)
    for column, (number, rank) in enumerate(training.items()):
        found[number] = rank._replace(
            held=_of_rank(grid, held, column, rank), wait=_of_rank(grid, waits, column, rank), barrier=kind
        )
    return found


def trains(rank: RankEvidence) -> bool:
    """Whether it has steps of its own that others may wait for."""
    return bool(len(rank.steps.step)) and not rank.serving and rank.role not in ("ps", "chief", "evaluator")


def how_seen(ranks: Sequence[RankEvidence], mode: str, has_servers: bool) -> tuple[str, str]:
    """(kind of barrier, see model.breakdown.BARRIERS; "" and why there is none that could be seen)."""
    if len(ranks) < 2:
        return "", "it trains alone: there is nobody to wait for"
    if mode != "synchronous":
        return "", "its ranks step independently of each other"
    if all(_known(phase(rank, COMMUNICATE)) for rank in ranks):
        return "communicate", ""
    if has_servers:
        return "join", ""
    if all(_known(seconds(rank, "kernels.last_ns")) for rank in ranks):
        return "kernels", ""
    return (
        "",
        "when its ranks wait for each other is not seen: no hook tells, and not all kernels were recorded",
    )


def held_in(grid: barrier.Grid, ranks: Sequence[RankEvidence], kind: str) -> Floats:
    """Seconds that each rank was held at the barrier of each step, (steps, ranks)."""
    if kind == "join":
        return barrier.held_by_join(grid, [rank.steps for rank in ranks])
    if kind == "communicate":
        return grid.place([phase(rank, COMMUNICATE) for rank in ranks])
    return grid.place([_after_last_kernel(rank) for rank in ranks])


def _after_last_kernel(rank: RankEvidence) -> Floats:
    last = rank.columns["kernels.last_ns"]
    return np.where(last == ABSENT, np.nan, np.maximum(0, rank.steps.end_ns - last) / NS)


def _known(column: Floats | None) -> bool:
    return column is not None and bool(np.mean(~np.isnan(column)) >= KNOWN_SHARE)


def _of_rank(grid: barrier.Grid, values: Floats, column: int, rank: RankEvidence) -> Floats:
    """A column of (steps, ranks) in the order of the rank's own steps."""
    found = np.full(len(rank.steps.step), np.nan)
    there = grid.at[:, column] >= 0
    found[grid.at[there, column]] = values[there, column]
    return found
