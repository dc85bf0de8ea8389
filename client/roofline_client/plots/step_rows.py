"""The rows of a job's steps as the numbers that its picture shows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..records import TableChunk

PHASES = ("input", "forward", "backward", "communicate", "optimizer")


class Step(NamedTuple):
    """One step of a rank, seconds; phases: those that were seen."""

    time: float
    phases: dict[str, float]


def read(chunks: Iterable[TableChunk]) -> tuple[dict[str, dict[int, Step]], list[str]]:
    """Rank -> step number -> step. Of a step done again (after a restart) the last counts."""
    ranks: dict[str, dict[int, Step]] = {}
    notes: list[str] = []
    again = 0
    for chunk in chunks:
        notes += chunk.notes
        for row in chunk.records():
            rank, number, took = row.get("rank"), row.get("step"), row.get("duration_ns")
            if not rank or not isinstance(number, int) or not isinstance(took, (int, float)) or took <= 0:
                continue
            steps = ranks.setdefault(str(rank), {})
            again += number in steps
            steps[number] = Step(took / 1e9, _phases(row))
    if again:
        notes.append(
            f"{again:,} steps were done again, or are windows of several workers: the last is drawn."
        )
    return ranks, notes


def _phases(row: dict[str, Any]) -> dict[str, float]:
    found = {name: row.get(f"{name}_time") for name in PHASES}
    return {name: float(v) for name, v in found.items() if isinstance(v, (int, float)) and 0 < v < math.inf}
