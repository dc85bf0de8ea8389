"""Step windows from marks.

A step of a rank is [BEGIN, END] of the same number, or from one BORDER to the next when their numbers follow
each other; a number that jumps means that marks were lost, and no window is made across the hole.
"""

from __future__ import annotations

import numpy as np

from ..records import Ints, MarkKind, Table, concatenate, rows, take

EMPTY: Table = {
    name: np.zeros(0, np.int64) for name in ("rank", "step", "begin_ns", "end_ns", "examples", "asynchronous")
}


def build(marks: Table) -> Table:
    """Windows, sorted by (rank, end), from marks: rank, kind, step, examples, time_ns, asynchronous.

    The result has rank, step, begin_ns, end_ns, examples (ABSENT where nobody said), asynchronous.
    """
    if not rows(marks):
        return EMPTY
    found = concatenate([_pairs(marks), _borders(marks)])
    if not rows(found):
        return EMPTY
    return take(found, np.lexsort((found["end_ns"], found["rank"])))


def _pairs(marks: Table) -> Table:
    kind = marks["kind"]
    some = take(marks, (kind == MarkKind.BEGIN) | (kind == MarkKind.END))
    # Stable sort by time within (rank, step): of a step done twice, each BEGIN meets its own END.
    some = take(some, np.lexsort((some["kind"], some["time_ns"], some["step"], some["rank"])))
    if rows(some) < 2:
        return {}
    begin, end = slice(None, -1), slice(1, None)
    meets = (
        (some["kind"][begin] == MarkKind.BEGIN)
        & (some["kind"][end] == MarkKind.END)
        & (some["rank"][begin] == some["rank"][end])
        & (some["step"][begin] == some["step"][end])
    )
    at = np.flatnonzero(meets)
    return _window(some, at, at + 1)


def _borders(marks: Table) -> Table:
    some = take(marks, marks["kind"] == MarkKind.BORDER)
    some = take(some, np.lexsort((some["time_ns"], some["rank"])))
    if rows(some) < 2:
        return {}
    follows = (some["rank"][:-1] == some["rank"][1:]) & (some["step"][1:] == some["step"][:-1] + 1)
    at = np.flatnonzero(follows)
    return _window(some, at, at + 1)


def _window(marks: Table, begin: Ints, end: Ints) -> Table:
    # Either mark may know the number of examples; the later one knows better.
    examples = np.where(marks["examples"][end] >= 0, marks["examples"][end], marks["examples"][begin])
    if len(begin) and marks["kind"][begin[0]] == MarkKind.BORDER:
        examples = marks["examples"][end]
    return {
        "rank": marks["rank"][end],
        "step": marks["step"][end],
        "begin_ns": marks["time_ns"][begin],
        "end_ns": marks["time_ns"][end],
        "examples": examples,
        "asynchronous": marks["asynchronous"][end],
    }


def synchronous(windows: Table) -> bool:
    """Whether the ranks of these windows step together: step k of all of them shares a moment, nearly always.

    Marks that say their steps are independent decide; else at least nine of ten common steps must overlap.
    """
    if not rows(windows) or bool(np.any(windows["asynchronous"] != 0)):
        return False
    ranks = len(np.unique(windows["rank"]))
    if ranks == 1:
        return True
    steps, where, count = np.unique(windows["step"], return_inverse=True, return_counts=True)
    latest_begin = np.full(len(steps), np.iinfo(np.int64).min)
    earliest_end = np.full(len(steps), np.iinfo(np.int64).max)
    np.maximum.at(latest_begin, where, windows["begin_ns"])
    np.minimum.at(earliest_end, where, windows["end_ns"])
    common = count == ranks
    if not common.any():
        return False
    return bool(np.mean(latest_begin[common] < earliest_end[common]) >= 0.9)


def last_needed(marks: Table, windows: Table, through_ns: int) -> int:
    """Earliest mark that a window ending after through_ns may still need; through_ns when there is none."""
    later = windows["begin_ns"][windows["end_ns"] > through_ns]
    earliest = int(later.min()) if len(later) else through_ns
    if not rows(marks):
        return min(earliest, through_ns)
    steps = take(marks, marks["kind"] <= MarkKind.BORDER)
    order = np.lexsort((steps["time_ns"], steps["rank"]))
    steps = take(steps, order)
    last = np.flatnonzero(np.append(steps["rank"][1:] != steps["rank"][:-1], True))
    open_ones = last[steps["kind"][last] != MarkKind.END]
    opened = steps["time_ns"][open_ones]
    return min(earliest, through_ns, int(opened.min()) if len(opened) else through_ns)
