"""The rows of a job's steps as what its picture shows: a row for each rank or role."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from roofline.answers.tables import TableChunk

from ..errors import ClientError
from ..tables.names import clean
from . import Steps, caption
from .point_labels import names_of

PHASES = ("input", "forward", "backward", "communicate", "optimizer")


MOST_RANKS = 6  # with more, roles are drawn as bands


def name_of(phase: str) -> str:
    """What a phase is called. The table of steps tells how long a rank was blocked, and not by what; the
    breakdown, which compares ranks, tells both apart."""
    return {"communicate": "communicate and wait"}.get(phase, phase)


class Step(NamedTuple):
    """One step of a rank, seconds; phases: those that were seen."""

    time: float
    phases: dict[str, float]


class Panel(NamedTuple):
    """What is drawn in a row: a rank with its steps, or a role with those of its ranks."""

    name: str
    role: str
    ranks: dict[str, dict[int, Step]]


def panels_of(record: Steps) -> tuple[list[Panel], list[str]]:
    """A row for each rank, or of many ranks for each role, and what is to be said. Raises ClientError when
    there is no step."""
    ranks, notes = read(record.chunks)
    if not ranks:
        why = caption.joined(notes[:3]) or "no step was marked or seen"
        raise ClientError(f"nothing to draw: job {clean(record.job)} has no steps: {clean(why)}")
    if len(ranks) <= MOST_RANKS:
        return [Panel(r, _role(r), {r: ranks[r]}) for r in sorted(ranks, key=_order)], notes
    roles: dict[str, dict[str, dict[int, Step]]] = {}
    for rank, steps in ((r, ranks[r]) for r in sorted(ranks, key=_order)):
        roles.setdefault(_role(rank), {})[rank] = steps
    return [Panel(names_of(list(own)), role, own) for role, own in roles.items()], notes


def _role(rank: str) -> str:
    return rank.rpartition(":")[0] or rank


def _order(rank: str) -> tuple[str, int, str]:
    role, _, index = rank.rpartition(":")
    return role, int(index) if index.isdecimal() else 0, index


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
