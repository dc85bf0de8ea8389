"""What is known of every rank of a job in some of its steps: the evidence that reports and models rest on."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import BadRequest, UnknownSteps
from ...model.evidence import RankEvidence
from ...records import Table, rows
from ...sentences.notes import damaged
from ...sentences.reasons import no_such_steps, none_in_range
from ...sentences.wording import joined
from ...store.view import JobView
from ..questions import STEADY_STEPS, Steps
from ..ranks.members import in_order
from .barriers import Barriers, barriers, with_waits
from .between import between_steps
from .clocks import clock_error
from .energy import with_gpus
from .mode import mode_of
from .ranks import evidence_of
from .reasons import KINDS
from .replays import marked, without_replays
from .sampled import with_filled
from .steady import kept_by_rank, resolved, seconds_left_out
from .tables import by_rank, unite, within
from .unwatched import unwatched_of
from .updates import with_updates


class Gathered(NamedTuple):
    """evidence: of every rank by its number; mode: how the job steps; tables: of each rank the rows of each
    step table that the evidence is of."""

    evidence: dict[int, RankEvidence]
    mode: str
    tables: dict[int, dict[str, Table]]
    barriers: Barriers


def check(steps: Steps) -> None:
    """Raises BadRequest where the range of steps cannot be."""
    if min(steps.first or 0, steps.last or 0) < 0:
        raise BadRequest("a negative step: steps are counted from 0")
    if steps.first is not None and steps.last is not None and steps.first > steps.last:
        raise BadRequest(f"steps {steps.first} to {steps.last}: the first comes after the last")


def check_seen(view: JobView, steps: Steps) -> None:
    """Raises UnknownSteps where the job has steps, but none in this range; and what `check` does."""
    check(steps)
    every = view.steps.get("steps", {})
    if rows(every) and not rows(within(every, steps)):
        first, last = ("" if end is None else str(end) for end in (steps.first, steps.last))
        why = no_such_steps(view.job, f"{first}:{last}", every["step"].min(), every["step"].max())
        raise UnknownSteps(joined(why, damaged(view.damaged) if view.damaged else ""))


def gather(view: JobView, steps: Steps = STEADY_STEPS) -> Gathered:
    """What is known of every rank. Raises BadRequest for a range that cannot be."""
    check(steps)
    mode = mode_of(view)
    steps = resolved(view, steps)
    tables = {name: within(table, steps) for name, table in view.steps.items()}
    if mode == "synchronous":
        tables = {name: unite(table) for name, table in tables.items()}
    mine = without_replays(view, with_filled(view, kept_by_rank(tables, steps), steps), mode)
    lifetimes = by_rank(view.time_windows)
    left_out = seconds_left_out(tables.get("steps", {}), steps)
    between, evidence = by_rank({"between": view.between}), {}
    unwatched = unwatched_of(view)
    for number in view.ranks:
        tables_of, apart = mine.get(number, {}), between.get(number, {}).get("between", {})
        lay_between = between_steps(apart, tables_of.get("steps", {}), steps)
        known = evidence_of(view, number, tables_of, lifetimes.get(number, {}), lay_between)
        evidence[number] = known._replace(
            left_out=left_out.get(number, 0.0),
            unwatched=unwatched.get(number),
            together=mode == "synchronous",
        )
    evidence = with_updates(view, marked(view, evidence), mode)
    every = view.steps.get("steps", {})
    if rows(every) and not rows(tables["steps"]):
        why = dict.fromkeys(KINDS, none_in_range(every["step"].min(), every["step"].max()))
        evidence = {number: rank._replace(reasons=why) for number, rank in evidence.items()}
    evidence = with_gpus(view, evidence)
    found = barriers({number: evidence[number] for number in in_order(view, evidence)}, mode)
    found = found._replace(grid=found.grid._replace(clock_error=clock_error(view, found)))
    return Gathered(with_waits(evidence, found), mode, mine, found)
