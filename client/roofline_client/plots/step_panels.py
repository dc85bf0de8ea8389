"""The steps of a job as panels of their plot: one for each rank or role."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from roofline.answers.tables import TableChunk
from roofline.texts import many

from ..errors import NothingToDraw
from ..tables.names import clean
from . import Steps, caption
from .point_labels import names_of

PHASES = ("input", "forward", "backward", "communicate", "optimizer")
NO_STEP = "time"  # in the column window_of: a window of time
MOST_RANKS = 6  # of more ranks, roles are drawn as bands


def name_of(phase: str) -> str:
    """The name of a phase in the plot. The table of steps has the time a rank was blocked, communicating or
    waiting; only the breakdown, which compares ranks, separates these."""
    return {"communicate": "communicate and wait"}.get(phase, phase)


class Step(NamedTuple):
    """One step of a rank, seconds. phases: those that were measured."""

    time: float
    phases: dict[str, float]


class StepPanel(NamedTuple):
    """One rank with its steps, or one role with the steps of its ranks."""

    name: str
    role: str
    ranks: dict[str, dict[int, Step]]


def panels_of(record: Steps) -> tuple[list[StepPanel], list[str]]:
    """A panel for each rank, or for each role if there are many ranks; and notes.

    Raises ClientError when there is no step.
    """
    ranks, notes = read(record.chunks)
    if not ranks:
        why = caption.joined(notes[:3]) or "no step was marked or seen"
        raise NothingToDraw(f"nothing to draw: job {clean(record.job)} has no steps: {clean(why)}")
    ordered = sorted(ranks, key=_order)
    if len(ranks) <= MOST_RANKS:
        return [StepPanel(rank, _role(rank), {rank: ranks[rank]}) for rank in ordered], notes
    roles: dict[str, dict[str, dict[int, Step]]] = {}
    for rank in ordered:
        roles.setdefault(_role(rank), {})[rank] = ranks[rank]
    return [StepPanel(names_of(list(own)), role, own) for role, own in roles.items()], notes


def _role(rank: str) -> str:
    return rank.rpartition(":")[0] or rank


def _order(rank: str) -> tuple[str, int, str]:
    role, _, index = rank.rpartition(":")
    return role, int(index) if index.isdecimal() else 0, index


def read(chunks: Iterable[TableChunk]) -> tuple[dict[str, dict[int, Step]], list[str]]:
    """Rank -> step number -> step, windows of time left out. If a step was repeated (after a restart), the
    last one counts."""
    ranks: dict[str, dict[int, Step]] = {}
    notes: list[str] = []
    repeated = 0
    for chunk in chunks:
        notes += chunk.notes
        for row in chunk.records():
            rank, number, duration = row.get("rank"), row.get("step"), row.get("duration_ns")
            if not rank or not isinstance(number, int) or row.get("window_of") == NO_STEP:
                continue
            if not isinstance(duration, (int, float)) or duration <= 0:
                continue
            times = {name: row.get(f"{name}_time") for name in PHASES}
            phases = {
                name: float(time)
                for name, time in times.items()
                if isinstance(time, (int, float)) and 0 < time < math.inf
            }
            steps = ranks.setdefault(str(rank), {})
            repeated += number in steps
            steps[number] = Step(duration / 1e9, phases)
    if repeated:
        are = "was done again, or is a window" if repeated == 1 else "were done again, or are windows"
        notes.append(f"{many(repeated, 'step')} {are} of several workers: the last is drawn.")
    return ranks, notes
