"""Where ranks of a synchronous training wait for each other, step by step.

All ranks leave the barrier of a step together (an allreduce cannot end before the last rank has given its
part; a coordinator's join cannot end before the last worker is done). How long each was held there needs no
common clock (all ends of a join are the coordinator's marks, on one clock): the rank that was held for the
shortest time came last, and the time that another was held longer is the time it waited. The time that even
the last one was held is the communication itself. (Tallent, Adhianto and Mellor-Crummey, SC 2010, also charge
idle time at a barrier to the rank that comes last.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..correlate.windows import attempts, joined
from ..records import Floats, Ints, concatenate, take
from .evidence import NS, StepEvidence


class Grid(NamedTuple):
    """Steps that ranks did together: a row per step (and attempt at it), a column per rank."""

    step: Ints  # (steps,) its number
    begin_ns: Ints  # (steps,) the earliest begin; server time
    end_ns: Ints  # (steps,) the latest end
    at: Ints  # (steps, ranks) which of the rank's steps it is; -1: it did not take part
    is_whole: bool = False  # row k is the k-th step of every rank, as is usual
    clock_error: float = 0.0  # by how much times of two ranks may be off against each other, s

    def place(self, columns: Sequence[Floats | None]) -> Floats:
        """Values per rank and own step as (steps, ranks), NaN where a rank has none. columns: by rank."""
        if self.is_whole:
            none = np.full(len(self.at), np.nan)
            return np.stack([none if one is None or not len(one) else one for one in columns], axis=1)
        found = np.full(self.at.shape, np.nan)
        for rank, column in enumerate(columns):
            if column is not None and len(column):
                there = self.at[:, rank] >= 0
                found[there, rank] = column[self.at[there, rank]]
        return found


def align(ranks: Sequence[StepEvidence]) -> Grid:
    """The steps of all ranks side by side, in order of time."""
    if (whole := _side_by_side(ranks)) is not None:
        return whole
    tables = [
        {
            "who": np.full(len(steps.step), number, np.int64),
            "own": np.arange(len(steps.step), dtype=np.int64),
            "step": steps.step,
            "begin_ns": steps.begin_ns,
            "end_ns": steps.end_ns,
        }
        for number, steps in enumerate(ranks)
    ]
    table = concatenate(tables)
    if not table:
        none: Ints = np.zeros(0, np.int64)
        return Grid(none, none, none, np.zeros((0, len(ranks)), np.int64))
    key = joined(table["step"], attempts(table, "who", "step"))
    by_step = np.argsort(key, kind="stable")
    table, key = take(table, by_step), key[by_step]
    firsts = np.flatnonzero(np.append(True, np.diff(key) != 0))
    begin = np.minimum.reduceat(table["begin_ns"], firsts)
    end = np.maximum.reduceat(table["end_ns"], firsts)
    at = np.full((len(firsts), len(ranks)), -1, np.int64)
    at[np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(key)))), table["who"]] = table["own"]
    order = np.argsort(begin, kind="stable")
    return Grid(table["step"][firsts][order], begin[order], end[order], at[order])


def time_a_step_of(grid: Grid, durations: Sequence[Floats], columns: Sequence[int]) -> float:
    """Seconds of all steps for each that all of these ranks took part in, of a job whose ranks come and go;
    0: there is none. durations: of steps, s, by rank."""
    own = int((grid.at[:, list(columns)] >= 0).all(axis=1).sum())
    return float(np.nanmean(grid.place(durations), axis=1).sum()) / own if own else 0.0


def _side_by_side(ranks: Sequence[StepEvidence]) -> Grid | None:
    """The steps of ranks that did the same ones, each once and one after the other; None: these are not such
    ranks. They usually are, and nothing has to be sorted."""
    step = ranks[0].step if ranks else np.zeros(0, np.int64)
    if not len(step) or not (step[1:] > step[:-1]).all():
        return None
    if not all(np.array_equal(one.step, step) for one in ranks):
        return None
    begin, end = ranks[0].begin_ns, ranks[0].end_ns
    for one in ranks:
        begin, end = np.minimum(begin, one.begin_ns), np.maximum(end, one.end_ns)
    if (begin[1:] < begin[:-1]).any():
        return None
    at = np.repeat(np.arange(len(step)), len(ranks)).reshape(-1, len(ranks))
    return Grid(step, begin, end, at, True)


def held_by_join(grid: Grid, ranks: Sequence[StepEvidence]) -> Floats:
    """Seconds from the end of each rank's part of a step to that of the last; (steps, ranks)."""
    # ns since the epoch do not fit a double; ns before the end of the step do.
    found = np.full(grid.at.shape, np.nan)
    for rank, steps in enumerate(ranks):
        there = grid.at[:, rank] >= 0
        found[there, rank] = (grid.end_ns[there] - steps.end_ns[grid.at[there, rank]]) / NS
    return found


def waits(held: Floats) -> Floats:
    """Seconds each rank waited for the last; (steps, ranks), NaN where fewer than two ranks are known."""
    known = np.sum(~np.isnan(held), axis=1) >= 2
    return np.where(known[:, None], held - row_min(held)[:, None], np.nan)


def lateness(held: Floats) -> Floats:
    """Seconds each rank came after the first; (steps, ranks), NaN where fewer than two ranks are known."""
    known = np.sum(~np.isnan(held), axis=1) >= 2
    return np.where(known[:, None], -row_min(-held)[:, None] - held, np.nan)


def row_min(values: Floats) -> Floats:
    """Least of each row, NaN where a row has nothing."""
    least: Floats = np.fmin.reduce(values, axis=1, initial=np.inf)
    return np.where(np.isinf(least), np.nan, least)
