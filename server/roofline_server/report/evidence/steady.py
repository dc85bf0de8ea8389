"""Which steps the numbers of a job are of, where nobody asked for a range: the steady ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...correlate.steps import OWN
from ...correlate.windows import joined
from ...model.evidence import NS
from ...model.steady import LeftOut, Steady, steady_of_each
from ...records import Bools, Ints, Table, rows, take
from ...sentences import steps as texts
from ...store.view import JobView, once
from ..questions import Steps
from ..ranks.members import processes_of_ranks
from .mode import mode_of
from .replays import parsed_steps
from .tables import by_rank, where

# Facts of a rank: steps that its framework's profiler has recorded, or, of a rank whose steps another process
# marks, the times in which it did: "BEGIN-END,BEGIN-END", node time.
TRACED, TRACED_TIMES = "trace.steps", "trace.times"
LEAST_STEPS = 8  # of fewer steps all count: which are steady cannot be told


@once
def steady_of(view: JobView) -> tuple[dict[int, Steady], dict[int, Ints]]:
    """Of each rank that has steps of its own, and the numbers of its steps that are left out."""
    every = view.steps.get("steps", {})
    needed = ("rank", "window", "step", "begin_ns", "end_ns", "apart")
    own = where({name: every[name] for name in needed if name in every}, "window", OWN)
    known: dict[int, Ints] = {}
    durations, apart, traced = [], [], []
    for number, tables in by_rank({"steps": own}).items():
        table = tables["steps"]
        if np.count_nonzero(table["end_ns"][1:] < table["end_ns"][:-1]):
            table = take(table, np.argsort(table["end_ns"], kind="stable"))
        known[number] = table["step"]
        durations.append((table["end_ns"] - table["begin_ns"]) / NS)
        apart.append(table["apart"] > 0 if "apart" in table else None)
        numbers = traced_steps(view, number)
        traced.append(np.isin(table["step"], numbers) if len(numbers) else None)
    if mode_of(view) == "synchronous":
        apart = _of_all(list(known.values()), apart)
    found = dict(zip(known, steady_of_each(durations, apart, traced), strict=True))
    for number, one in found.items():
        if len(one.which) < LEAST_STEPS or not one.which.any():
            found[number] = Steady(np.ones_like(one.which), [])
    left = {number: np.unique(known[number][~one.which]) for number, one in found.items()}
    return found, left


def _of_all(numbers: Sequence[Ints], apart: Sequence[Bools | None]) -> list[Bools | None]:
    """Where ranks wait for each other, who evaluates before a step holds up that step of all.

    numbers: of each rank, of its steps; apart: which of these began apart from the one before."""
    breaks = [
        one[which] for one, which in zip(numbers, apart, strict=True) if which is not None and which.any()
    ]
    if not breaks:
        return list(apart)
    some = np.unique(np.concatenate(breaks))
    return [np.isin(one, some) for one in numbers]


def traced_steps(view: JobView, number: int) -> Ints:
    """The steps of a rank that its framework's profiler has recorded (`run --trace`), or some of them."""
    facts = view.facts.get(number, {})
    if TRACED not in facts and TRACED_TIMES not in facts:
        return np.zeros(0, np.int64)
    named = parsed_steps(facts.get(TRACED, ""))
    times = traced_times(view, number)
    own = where(view.steps.get("steps", {}), "window", OWN) if times else {}
    if not rows(own):
        return named
    own = take(own, own["rank"] == number)
    some = [own["step"][(own["end_ns"] > begin) & (own["begin_ns"] < end)] for begin, end in times]
    return np.unique(np.concatenate([named, *some]))


def traced_times(view: JobView, number: int) -> list[tuple[int, int]]:
    """When a rank whose steps another process marks was traced; server time."""
    text = view.facts.get(number, {}).get(TRACED_TIMES, "")
    ends = [one.partition("-")[::2] for one in text.split(",")]
    known = [[int(begin), int(end)] for begin, end in ends if _is_time(begin) and _is_time(end)]
    if not known:
        return []
    nodes = [who.node for who in processes_of_ranks(view).get(number, []) if who.node in view.clocks]
    if not nodes:
        return []
    times = view.clocks[nodes[-1]].to_server(np.array(known, np.int64).ravel()).reshape(-1, 2)
    return [(begin, end) for begin, end in times.tolist()]


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


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
    if found := left_out_of(view, steps):
        return [texts.left_out([(one.reason, one.steps, one.seconds) for one in found])]
    return few_step_notes(view, steps)


def few_step_notes(view: JobView, steps: Steps) -> list[str]:
    """Of a job so short that all its steps count, the first, too."""
    counts = [len(one.which) for one in steady_of(view)[0].values()] if steps == Steps() else []
    most = max(counts, default=0)
    return [texts.all_count(most)] if 1 < most < LEAST_STEPS else []


def _without_left_out(steps: Steps, left: Mapping[int, Ints], view: JobView, mode: str) -> Steps:
    numbers = {number: some for number, some in left.items() if len(some)}
    if mode == "synchronous" and numbers:
        together = np.unique(np.concatenate(list(numbers.values())))
        numbers = dict.fromkeys(view.ranks, together)
    return steps._replace(left_out=numbers) if numbers else steps


def kept(mine: Mapping[str, Table], number: int, steps: Steps) -> dict[str, Table]:
    """Of one rank's step tables the rows of steps that are not left out."""
    found = dict(mine)
    if steps.left_out:
        found |= kept_by_rank(mine, steps).get(number, {})
    return found


def kept_by_rank(tables: Mapping[str, Table], steps: Steps) -> dict[int, dict[str, Table]]:
    """rank -> of each table its rows of steps that are not left out. A row of a server's belongs to the step
    of the worker whose window it is."""
    left_out = steps.left_out
    return by_rank(tables, (lambda table: _go(table, left_out)) if left_out else None)


def _go(table: Table, left_out: Mapping[int, Ints]) -> Bools:
    """Which rows are of steps that are left out."""
    out = np.zeros(rows(table), np.bool_)
    if "step" not in table:
        return out
    # Nearly all steps are beyond those that are left out: only the others are looked up.
    several = {id(numbers): numbers for numbers in left_out.values() if len(numbers)}
    least = min((int(numbers.min()) for numbers in several.values()), default=0)
    most = max((int(numbers.max()) for numbers in several.values()), default=-1)
    at = np.flatnonzero((table["step"] >= least) & (table["step"] <= most))
    if not len(at):
        return out
    step, whose = table["step"][at], table["rank"][at]
    windows = table["window"][at]
    if (windows != OWN).any():
        known = np.isin(whose, np.fromiter(left_out, np.int64))
        whose = np.where(known | (windows == OWN), whose, windows)
    if len(several) == 1:  # in synchronous training they are the same of all ranks
        (numbers,) = several.values()
        some = [rank for rank, own in left_out.items() if own is numbers]
        out[at] = np.isin(step, numbers) & np.isin(whose, some)
        return out
    rank = np.concatenate([np.full(len(numbers), rank) for rank, numbers in left_out.items()])
    both = joined(np.append(rank, whose), np.append(np.concatenate(list(left_out.values())), step))
    out[at] = np.isin(both[len(rank) :], both[: len(rank)])
    return out
