"""The steps of a job as panels of their plot: one for each rank or role."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from roofline.answers.tables import TableChunk
from roofline.texts import listed, many

from ..errors import NothingToDraw
from ..tables.names import clean
from ..tables.steps import own_phases
from . import Steps, caption
from .point_labels import names_of

PHASES = ("input", "forward", "backward", "communicate", "optimizer")
MOST_OWN = 8  # phases that the training marks itself: colours
OVERLAP = 1.05  # of a step: phases that add up to more overlap; a little more is the error of clocks
FEW = 0.01  # of the steps
NO_STEP = "time"  # in the column window_of: a window of time
MOST_RANKS = 6  # of more ranks, roles are drawn as bands


def name_of(phase: str) -> str:
    """The name of a phase in the plot. The table of steps has the time a rank was blocked, communicating or
    waiting; only the breakdown, which compares ranks, separates these."""
    return {"communicate": "communicate and wait"}.get(phase, clean(phase))


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
        notes += _leave_out_own([step for each in ranks.values() for step in each.values()])
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
        columns = {f"{name}_time": name for name in PHASES} | own_phases(c.name for c in chunk.columns)
        for row in chunk.records():
            rank, number, duration = row.get("rank"), row.get("step"), row.get("duration_ns")
            if not rank or not isinstance(number, int) or row.get("window_of") == NO_STEP:
                continue
            if not isinstance(duration, (int, float)) or duration <= 0:
                continue
            times = {name: row.get(column) for column, name in columns.items()}
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


def _leave_out_own(steps: list[Step]) -> list[str]:
    """Take phases of the training's own out of these steps: all where phases overlap, as they would be drawn
    on top of each other, else those that have no colour. Notes of them."""
    spent: dict[str, float] = {}
    for step in steps:
        for name in step.phases.keys() - set(PHASES):
            spent[name] = spent.get(name, 0.0) + step.phases[name]
    longer = sum(sum(step.phases.values()) > OVERLAP * step.time for step in steps)
    overlap = longer > FEW * len(steps)
    out = sorted(spent, key=lambda name: (-spent[name], name))[0 if overlap else MOST_OWN :]
    for step in steps:
        for name in out:
            step.phases.pop(name, None)
    if not out:
        return []
    why = "which overlap with others" if overlap else "which took less time"
    return [f"Phases that are not drawn, {why}: {listed(out)}."]
