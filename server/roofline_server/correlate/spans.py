"""Spans of ranks (phases, collectives) summed per step window.

Time is counted once: spans of one name that overlap are one stretch, and of a span that reaches over a border
each window has its part. How many things a span stands for, and their bytes, belong to the window that holds
its middle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..records import ABSENT, Bools, Ints, MarkKind, Table, concatenate, rows, take
from .in_a_row import InARow, in_rows
from .kernels import merge

COMMUNICATE = "phase.communicate"
# What an engine executed, all collectives together, and the part of it in which the rank was blocked.
BUSY, EXPOSED = "engine.busy", "engine.exposed"
# Amounts of a step, not stretches of time: they are what a span counts; its place only says of which step.
AMOUNTS = "thread."
NO_COLLECTIVES = ("engine.negotiate", "engine.queue", "engine.memcpy", "engine.cycle")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class Cover(NamedTuple):
    """Sorted, disjoint stretches of time, and how much of them lies before each."""

    begin: Ints
    end: Ints
    before: Ints

    def until(self, moments: Ints) -> Ints:
        """Covered time up to each moment, ns."""
        if not len(self.begin):
            return np.zeros(len(moments), np.int64)
        at = np.searchsorted(self.begin, moments, side="right") - 1
        inside = np.minimum(moments, self.end[at]) - self.begin[at]
        return np.where(at < 0, 0, self.before[at] + inside)

    def within(self, begin: Ints, end: Ints) -> Ints:
        """Covered time in each window [begin, end], ns."""
        return self.until(end) - self.until(begin)


def cover(begin: Ints, end: Ints) -> Cover:
    """The union of intervals."""
    begin, end = merge(begin.astype(np.int64), end.astype(np.int64))
    return Cover(
        begin, end, np.concatenate(([0], np.cumsum(end - begin)[:-1])).astype(np.int64)[: len(begin)]
    )


def total(windows: Table, spans: Table) -> Table:
    """One row per window of a rank that has spans.

    windows: rank, window, step, begin_ns, end_ns; a rank's own. spans: rank, time_ns (begin), end_ns, name,
    bytes, count. The result repeats the windows' columns and adds per name NAME.ns, NAME.count, NAME.bytes:
    ABSENT where the rank has no span of that name; of bytes also where they are unknown. Of amounts there is
    NAME.count alone.
    """
    if not rows(spans) or not rows(windows):
        return {}
    spans = {**spans, "name": spans["name"].astype(object)}
    times = (windows["begin_ns"], windows["end_ns"], spans["time_ns"], spans["end_ns"])
    parts = []
    for together in in_rows(spans["rank"], *times):
        mine = together.taken(windows)
        if rows(mine):
            parts.append(_total_of(mine, together.taken(spans), together))
    return concatenate(parts)


def _total_of(windows: Table, spans: Table, together: InARow) -> Table:
    own = windows["rank"]
    shift = together.shift(own)
    begin, end = (windows[name].astype(np.int64) + shift for name in ("begin_ns", "end_ns"))
    result: Table = dict(windows)
    covers: dict[str, Cover] = {}

    def put(column: str, values: Ints, there: Bools) -> None:
        result[column] = values if there.all() else np.where(there, values, ABSENT)

    of_name = _by_name(spans)
    for name, mine in of_name.items():
        there = together.having(mine["rank"], own)
        later = together.shift(mine["rank"])
        mine |= {n: mine[n].astype(np.int64) + later for n in ("time_ns", "end_ns")}
        counted, moved = _sums(mine, begin, end, together, own)
        put(f"{name}.count", counted, there)
        if name.startswith(AMOUNTS):
            continue
        covers[name] = cover(mine["time_ns"], mine["end_ns"])
        put(f"{name}.ns", covers[name].within(begin, end), there)
        put(f"{name}.bytes", moved, there)
    engine = [name for name in covers if name.startswith("engine.") and name not in NO_COLLECTIVES]
    if engine:
        busy = _union([covers[name] for name in engine])
        executed = together.having(np.concatenate([of_name[name]["rank"] for name in engine]), own)
        put(f"{BUSY}.ns", busy.within(begin, end), executed)
        if COMMUNICATE in covers:
            blocked = covers[COMMUNICATE]
            either = _union([busy, blocked])
            # What two sets share is what they have less what their union has.
            shared = busy.within(begin, end) + blocked.within(begin, end) - either.within(begin, end)
            put(f"{EXPOSED}.ns", shared, executed & together.having(of_name[COMMUNICATE]["rank"], own))
    return result


def _by_name(spans: Table) -> dict[str, Table]:
    """The spans of each name, by name."""
    texts = spans["name"].tolist()
    number = {name: place for place, name in enumerate(sorted(set(texts)))}
    code = np.fromiter(map(number.__getitem__, texts), np.int64, len(texts))
    order = np.argsort(code, kind="stable")
    edges = np.searchsorted(code[order], np.arange(len(number) + 1)).tolist()
    columns = {name: column[order] for name, column in spans.items() if name != "name"}
    return {
        name: {n: column[edges[at] : edges[at + 1]] for n, column in columns.items()}
        for name, at in number.items()
    }


def _union(covers: list[Cover]) -> Cover:
    return cover(np.concatenate([c.begin for c in covers]), np.concatenate([c.end for c in covers]))


def _sums(spans: Table, begin: Ints, end: Ints, together: InARow, own: Ints) -> tuple[Ints, Ints]:
    """own: rank of each window."""
    middle = (spans["time_ns"] + (spans["end_ns"] - spans["time_ns"]) // 2).astype(np.int64)
    order = np.argsort(middle, kind="stable")
    first, behind = np.searchsorted(middle[order], begin), np.searchsorted(middle[order], end)
    known: Bools = spans["bytes"] != ABSENT
    counts = _running(spans["count"][order])
    counted = counts[behind] - counts[first]
    if not known.any():
        return counted, np.full(len(begin), ABSENT, np.int64)
    sizes = _running(np.where(known, spans["bytes"], 0)[order])
    sized = _running(known.astype(np.int64)[order])
    # In a window without any span of this name nothing was moved; where spans have no size it is unknown.
    unknown = (counted > 0) & (sized[behind] == sized[first])
    unknown |= ~together.having(spans["rank"][known], own)
    return counted, np.where(unknown, ABSENT, sizes[behind] - sizes[first])


def _running(column: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(column, dtype=np.int64)))


def of_marks(marks: Table) -> Table:
    """Phases that a training marked itself, as spans "phase.NAME"; of two begins of one the second counts."""
    if not rows(marks) or "phase" not in marks:
        return {}
    some = take(marks, (marks["kind"] == MarkKind.PHASE_BEGIN) | (marks["kind"] == MarkKind.PHASE_END))
    if rows(some) < 2:
        return {}
    names, which = np.unique(some["phase"].astype(str), return_inverse=True)
    which = which.reshape(-1)
    order = np.lexsort((some["kind"], some["time_ns"], which, some["rank"]))
    some, which = take(some, order), which[order]
    opens, closes = some["kind"][:-1] == MarkKind.PHASE_BEGIN, some["kind"][1:] == MarkKind.PHASE_END
    same = (some["rank"][:-1] == some["rank"][1:]) & (which[:-1] == which[1:])
    at = np.flatnonzero(opens & closes & same)
    titles = []
    for name in names.tolist():
        words = "".join(c if c in _PLAIN else " " for c in name.casefold()).split()
        titles.append(f"phase.{'_'.join(words) or 'other'}")
    return {
        "rank": some["rank"][at],
        "time_ns": some["time_ns"][at],
        "end_ns": some["time_ns"][at + 1],
        "name": np.array(titles, object)[which[at]],
        "bytes": np.full(len(at), ABSENT, np.int64),
        "count": np.ones(len(at), np.int64),
    }
