"""Which steps the numbers of a job are of, where nobody asked for a range: the steady ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...correlate.steps import OWN
from ...correlate.windows import attempts, joined
from ...model.evidence import NS
from ...model.steady import LeftOut, Steady, steady_of_each
from ...records import Bools, Ints, Table, rows, take
from ...sentences import steps as texts
from ...store.view import JobView, once
from ..questions import Steps
from ..ranks.members import processes_of_ranks, roles_aside
from .mode import mode_of
from .replays import parsed_steps
from .tables import by_rank, where

# Facts of a rank: steps that its framework's profiler has recorded, or, of a rank whose steps another process
# marks, the times in which it did: "BEGIN-END,BEGIN-END", node time.
TRACED, TRACED_TIMES = "trace.steps", "trace.times"
LEAST_STEPS = 8  # of fewer steps all count: which are steady cannot be told


@once
def steady_of(view: JobView) -> tuple[dict[int, Steady], Table]:
    """Of each rank that has steps of its own, in order of time, and the windows of those that are left out:
    rank, step, end_ns. Numbers of steps would not do: with each epoch they come again."""
    own = _own_in_order(view)
    if not rows(own):
        return {}, {}
    apart = own["apart"] > 0 if "apart" in own else np.zeros(rows(own), np.bool_)
    shared = _stepping_together(view, own)
    mine = by_rank({"steps": {**own, "apart": _of_all(own, apart, shared)}})
    durations, breaks, traced = [], [], []
    for number, tables in mine.items():
        table, numbers = tables["steps"], traced_steps(view, number)
        durations.append((table["end_ns"] - table["begin_ns"]) / NS)
        breaks.append(table["apart"])
        traced.append(np.isin(table["step"], numbers) if len(numbers) else None)
    found = dict(zip(mine, steady_of_each(durations, breaks, traced), strict=True))
    for number, one in found.items():
        if len(one.which) < LEAST_STEPS or not one.which.any():
            found[number] = Steady(np.ones_like(one.which), [])
    alone = ~np.concatenate([one.which for one in found.values()])
    left = _of_all(own, alone, shared)
    if left[shared].all():  # nothing tells their steps apart, as each epoch has but one
        left = alone
    return found, take({name: own[name] for name in ("rank", "step", "end_ns")}, left)


def _own_in_order(view: JobView) -> Table:
    """The windows of all ranks that have some of their own, by rank, and of each rank in order of time."""
    every = view.steps.get("steps", {})
    needed = ("rank", "window", "step", "begin_ns", "end_ns", "apart")
    own = where({name: every[name] for name in needed if name in every}, "window", OWN)
    if not rows(own):
        return own
    rank, end = own["rank"], own["end_ns"]
    turns = (rank[1:] < rank[:-1]) | ((rank[1:] == rank[:-1]) & (end[1:] < end[:-1]))
    return take(own, np.lexsort((end, rank))) if turns.any() else own


def _stepping_together(view: JobView, own: Table) -> Bools:
    """Which of these windows are of ranks that wait for each other."""
    if mode_of(view) != "synchronous" or own["rank"][0] == own["rank"][-1]:
        return np.zeros(rows(own), np.bool_)
    aside = roles_aside({key.role for key in view.ranks.values()})
    apart = [number for number, key in view.ranks.items() if key.role in aside]
    together: Bools = ~np.isin(own["rank"], apart) if apart else np.ones(rows(own), np.bool_)
    return together


def _of_all(own: Table, some: Bools, shared: Bools) -> Bools:
    """Some windows, and where ranks wait for each other the others of the same steps: who evaluates before a
    step, or warms up, holds up that step of all. shared: which windows are of such ranks."""
    known = some & shared
    if not known.any():
        return some
    # Few numbers are looked at: with each epoch they may come again, and only one of these steps is meant.
    at = np.flatnonzero(shared & np.isin(own["step"], np.unique(own["step"][known])))
    same = take({name: own[name] for name in ("rank", "step", "begin_ns", "end_ns")}, at)
    key = joined(same["step"], attempts(same, "rank", "step"))
    found: Bools = some.copy()
    found[at] = np.isin(key, key[known[at]])
    return found


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


def resolved(view: JobView, steps: Steps) -> Steps:
    """What is asked for, with the windows that are left out where no range was asked for. In synchronous
    training, where a rank that warms up makes the others wait, these are of the same steps of all ranks."""
    if steps != Steps():
        return steps
    left = steady_of(view)[1]
    return steps._replace(left_out=left) if rows(left) else steps


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
    """Notes on a job so short that all its steps count, the first, too."""
    counts = [len(one.which) for one in steady_of(view)[0].values()] if steps == Steps() else []
    most = max(counts, default=0)
    return [texts.all_count(most)] if 1 < most < LEAST_STEPS else []


def kept(mine: Mapping[str, Table], number: int, steps: Steps) -> dict[str, Table]:
    """The rows of one rank's step tables whose steps are not left out."""
    left_out = steps.left_out
    if not left_out:
        return dict(mine)
    first, last = np.searchsorted(left_out["rank"], [number, number + 1]).tolist()
    its_own = {name: column[first:last] for name, column in left_out.items()}
    return dict(mine) | kept_by_rank(mine, steps._replace(left_out=its_own)).get(number, {})


def kept_by_rank(tables: Mapping[str, Table], steps: Steps) -> dict[int, dict[str, Table]]:
    """rank -> of each table its rows of steps that are not left out. A row of a server's belongs to the step
    of the worker whose window it is."""
    left_out = steps.left_out
    return by_rank(tables, (lambda table: are_left_out(table, left_out)) if left_out else None)


def seconds_left_out(table: Table, steps: Steps) -> dict[int, float]:
    """rank -> time of its own steps that are left out, of a table of steps."""
    if not steps.left_out or not rows(table):
        return {}
    left = where(take(table, are_left_out(table, steps.left_out)), "window", OWN)
    ranks, at = np.unique(left["rank"], return_inverse=True)
    seconds = np.bincount(at, (left["end_ns"] - left["begin_ns"]) / NS)
    return dict(zip(ranks.tolist(), seconds.tolist(), strict=True))


def are_left_out(table: Table, left_out: Table) -> Bools:
    """Which rows are of windows that are left out."""
    out = np.zeros(rows(table), np.bool_)
    if "step" not in table or not rows(left_out):
        return out
    # Nearly all steps have other numbers than those that are left out: only the rest is looked up.
    at = np.flatnonzero(np.isin(table["step"], np.unique(left_out["step"])))
    if not len(at):
        return out
    rank, window = table["rank"][at], table["window"][at]
    whose = np.where(window == OWN, rank, window)
    count = rows(left_out)
    key = joined(np.append(left_out["rank"], whose), np.append(left_out["end_ns"], table["end_ns"][at]))
    gone, asked = np.sort(key[:count]), key[count:]
    out[at] = gone[np.minimum(np.searchsorted(gone, asked), count - 1)] == asked
    return out
