"""What is known of every rank of a job in some of its steps: the evidence that reports and models rest on."""

from __future__ import annotations

import numpy as np

from ...correlate import windows as step_windows
from ...correlate.steps import OWN
from ...errors import BadRequest, UnknownSteps
from ...model.evidence import RankEvidence
from ...records import Table, rows, take
from ...store.view import JobView
from ..questions import ALL_STEPS, Steps
from .barriers import with_waits
from .energy import with_gpus
from .ranks import by_rank, evidence_of, unite, where, within
from .reasons import KINDS
from .replays import told, without_replays


def check(steps: Steps) -> None:
    """Raises BadRequest where the range of steps cannot be."""
    if steps.first is not None and steps.last is not None and steps.first > steps.last:
        raise BadRequest(f"steps {steps.first} to {steps.last}: the first comes after the last")


def check_seen(view: JobView, steps: Steps) -> None:
    """Raises UnknownSteps where the job has steps, but none in this range; and what `check` does."""
    check(steps)
    every = view.steps.get("steps", {})
    if rows(every) and not rows(within(every, steps)):
        raise UnknownSteps(f"job {view.job}: {_none_in_range(every)}")


def _none_in_range(every: Table) -> str:
    return f"no step is in the range asked for: the job has {every['step'].min()} to {every['step'].max()}"


def gather(view: JobView, steps: Steps = ALL_STEPS) -> tuple[dict[int, RankEvidence], str]:
    """(what is known of every rank by its number, how the job steps). Raises BadRequest for a range that
    cannot be."""
    check(steps)
    tables = {name: within(table, steps) for name, table in view.steps.items()}
    mode = mode_of(view)
    if mode == "synchronous":
        tables = {name: unite(table) for name, table in tables.items()}
    mine, lifetimes = without_replays(view, by_rank(tables), mode), by_rank(view.time_windows)
    evidence = {
        number: evidence_of(view, number, mine.get(number, {}), lifetimes.get(number, {}))
        for number in view.ranks
    }
    evidence = told(view, evidence)
    every = view.steps.get("steps", {})
    if rows(every) and not rows(tables["steps"]):
        why = _none_in_range(every)
        evidence = {n: rank._replace(reasons=dict.fromkeys(KINDS, why)) for n, rank in evidence.items()}
    return with_waits(with_gpus(view, evidence), mode), mode


def mode_of(view: JobView) -> str:
    """How the ranks that train step: judged by all their steps, whichever are asked for."""
    own = where(view.steps.get("steps", {}), "window", OWN)
    aside = [number for number, key in view.ranks.items() if key.role == "evaluator"]
    own = take(own, ~np.isin(own["rank"], aside)) if rows(own) and aside else own
    if not rows(own):
        return ""
    return "synchronous" if step_windows.synchronous(own) else "asynchronous"
