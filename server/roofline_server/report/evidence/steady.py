"""Which steps the numbers of a job are of, where nobody asked for a range: the steady ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...correlate.steps import OWN
from ...model.evidence import NS
from ...model.steady import LeftOut, Steady, steady
from ...records import Bools, Ints, Table, rows, take
from ...sentences import steps as texts
from ...store.view import JobView, once
from ..questions import Steps
from .replays import parsed_steps
from .tables import by_rank, where

TRACED = "trace.steps"  # fact of a rank: steps that its framework's profiler has recorded
LEAST_STEPS = 8  # of fewer steps all count: which are steady cannot be told


@once
def steady_of(view: JobView) -> tuple[dict[int, Steady], dict[int, Ints]]:
    """Of each rank that has steps of its own, and the numbers of its steps that are left out."""
    own = where(view.steps.get("steps", {}), "window", OWN)
    found, left = {}, {}
    for number, tables in by_rank({"steps": own}).items():
        table = tables["steps"]
        if np.any(np.diff(table["end_ns"]) < 0):
            table = take(table, np.argsort(table["end_ns"], kind="stable"))
        lasted = (table["end_ns"] - table["begin_ns"]) / NS
        apart = table["apart"] > 0 if "apart" in table else None
        traced = np.isin(table["step"], traced_steps(view, number))
        if len(lasted) >= LEAST_STEPS and not traced.all():
            found[number] = steady(lasted, apart, traced)
        else:
            found[number] = Steady(lasted >= 0, [])
        left[number] = np.unique(table["step"][~found[number].which])
    return found, left


def traced_steps(view: JobView, number: int) -> Ints:
    """The steps of a rank that its framework's profiler has recorded (`run --trace`)."""
    return parsed_steps(view.facts.get(number, {}).get(TRACED, ""))


def resolved(view: JobView, steps: Steps, mode: str) -> Steps:
    """What is asked for, with the steps that are left out where no range was asked for. In synchronous
    training, where a rank that warms up makes the others wait, these are the same of all ranks."""
    return steps if steps != Steps() else _without_left_out(steps, steady_of(view)[1], view, mode)


def left_out_of(view: JobView, steps: Steps) -> list[LeftOut]:
    """What is left out where these steps are asked for, by reason: of the rank that it cost most."""
    most: dict[str, LeftOut] = {}
    for one in steady_of(view)[0].values() if steps == Steps() else ():
        for left in one.left_out:
            if left.reason not in most or left.seconds > most[left.reason].seconds:
                most[left.reason] = left
    return list(most.values())


def left_out_notes(view: JobView, steps: Steps) -> list[str]:
    """One line on the steps that an answer is not of; none where there are none."""
    found = left_out_of(view, steps)
    return [texts.left_out([(one.reason, one.steps, one.seconds) for one in found])] if found else []


def _without_left_out(steps: Steps, left: Mapping[int, Ints], view: JobView, mode: str) -> Steps:
    numbers = {number: some for number, some in left.items() if len(some)}
    if mode == "synchronous" and numbers:
        together = np.unique(np.concatenate(list(numbers.values())))
        numbers = dict.fromkeys(view.ranks, together)
    return steps._replace(left_out=numbers) if numbers else steps


def kept(mine: Mapping[str, Table], number: int, steps: Steps) -> dict[str, Table]:
    """Of one rank's step tables the rows of steps that are not left out. A row of a server's belongs to the
    step of the worker whose window it is."""
    if not steps.left_out:
        return dict(mine)
    return {name: _without(table, number, steps.left_out) for name, table in mine.items()}


def _without(table: Table, number: int, left_out: Mapping[int, Ints]) -> Table:
    if not rows(table) or "step" not in table:
        return table
    windows = table["window"]
    if (windows == OWN).all() or number in left_out:
        out = np.isin(table["step"], left_out.get(number, np.zeros(0, np.int64)))
    else:
        out = np.zeros(rows(table), bool)
        for worker in np.unique(windows).tolist():
            if worker in left_out:
                out |= (windows == worker) & np.isin(table["step"], left_out[worker])
    return _dropped(table, out)


def _dropped(table: Table, out: Bools) -> Table:
    """The other rows; nothing is copied where those that go are the first, as they nearly always are."""
    gone = int(out.sum())
    if not gone:
        return table
    if out[:gone].all():
        return {name: column[gone:] for name, column in table.items()}
    return take(table, ~out)
