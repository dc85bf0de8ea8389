"""Step windows from marks.

A step of a rank is [BEGIN, END] of the same number, or from one BORDER to the next when their numbers follow
each other; a number that jumps means that marks were lost, and no window is made across the hole. If a
BEGIN of its number comes right before a BORDER, the step lasts from there: what is between it and the
border before (an evaluation, a checkpoint) is not part of a step.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..records import Bools, Ints, MarkKind, Table, concatenate, rows, take

# Steps of a rank that began long ago and may yet end: one whose ends are lost has ever more of them.
MOST_OPEN = 8
COLUMNS = ("rank", "step", "begin_ns", "end_ns", "examples", "asynchronous", "like", "apart")
EMPTY: Table = {name: np.zeros(0, np.int64) for name in COLUMNS}


def build(marks: Table) -> Table:
    """Windows, sorted by (rank, end), from marks: rank, kind, step, examples, time_ns, asynchronous, like.

    The result has rank, step, begin_ns, end_ns, examples (ABSENT where not reported), asynchronous, like (0:
    not known), and apart: 1 where the step did not begin at the border that ended the one before.
    """
    if not rows(marks):
        return EMPTY
    found: list[Table] = []
    pairs = _begins_and_ends(marks)
    closed = _closed_by_end(pairs)
    if closed.any():
        at = np.flatnonzero(closed)
        found.append(_windows(pairs, at, at + 1))
    borders = _borders(marks, take(pairs, _open(pairs, closed)))
    if rows(borders) > 1:
        begun = _begun_apart(borders)
        # Each border ends what began last of it and the border before.
        ends = np.flatnonzero(borders["kind"] == MarkKind.BORDER)
        begins = np.append(-1, ends)[: len(ends)]
        apart = np.append(False, begun)[ends]
        begins[apart] = ends[apart] - 1
        follows = apart | _follow(borders, begins, ends)
        found.append(
            {**_windows(borders, begins[follows], ends[follows]), "apart": apart[follows].astype(np.int64)}
        )
    windows = concatenate(found)
    if not rows(windows):
        return EMPTY
    return take(windows, np.lexsort((windows["end_ns"], windows["rank"])))


def _begins_and_ends(marks: Table) -> Table:
    some = take(marks, (marks["kind"] == MarkKind.BEGIN) | (marks["kind"] == MarkKind.END))
    # Stable sort by time within (rank, step): of a step done twice, each BEGIN meets its own END.
    return take(some, np.lexsort((some["kind"], some["time_ns"], some["step"], some["rank"])))


def _closed_by_end(pairs: Table) -> Bools:
    """Which of `_begins_and_ends` are a BEGIN whose END is the next row."""
    closed = np.zeros(rows(pairs), np.bool_)
    if rows(pairs) > 1:
        opens, closes = pairs["kind"][:-1] == MarkKind.BEGIN, pairs["kind"][1:] == MarkKind.END
        same = (pairs["rank"][:-1] == pairs["rank"][1:]) & (pairs["step"][:-1] == pairs["step"][1:])
        closed[:-1] = opens & closes & same
    return closed


def _open(pairs: Table, closed: Bools) -> Bools:
    """Which of `_begins_and_ends` are a BEGIN without an END."""
    found: Bools = (pairs["kind"] == MarkKind.BEGIN) & ~closed
    return found


def _borders(marks: Table, begins: Table) -> Table:
    """The BORDERs of each rank in order of time, among them these BEGINs."""
    some = take(marks, marks["kind"] == MarkKind.BORDER)
    if rows(begins):
        some = concatenate([some, begins])
    # Where a step begins in the moment in which the one before ends, that one comes first.
    return take(some, np.lexsort((some["kind"], some["step"], some["time_ns"], some["rank"])))


def _begun_apart(borders: Table) -> Bools:
    """Of each of `_borders` but the first, whether it ends a step that the row before it began."""
    begun: Bools = (borders["kind"][:-1] == MarkKind.BEGIN) & (borders["kind"][1:] == MarkKind.BORDER)
    for name in ("rank", "step", "start_ns"):
        if name in borders:
            begun &= borders[name][:-1] == borders[name][1:]
    return begun


def _follow(borders: Table, before: Ints, after: Ints) -> Bools:
    """Which of these borders end the step that begins at the one before. before: -1 for the first."""
    follows: Bools = before >= 0
    follows &= borders["rank"][before] == borders["rank"][after]
    follows &= borders["step"][after] == borders["step"][before] + 1
    if "start_ns" in borders:
        # Numbers that go on after a restart do not make a step of the time in between.
        follows &= borders["start_ns"][before] == borders["start_ns"][after]
    return follows


def _windows(marks: Table, begin: Ints, end: Ints) -> Table:
    # Either mark may know the number of examples; the later one knows better. A border knows those of the
    # step that it ends.
    own = (marks["kind"][end] == MarkKind.BORDER) | (marks["examples"][end] >= 0)
    like = marks.get("like", np.zeros(rows(marks), np.int64))
    windows = {
        "rank": marks["rank"][end],
        "step": marks["step"][end],
        "begin_ns": marks["time_ns"][begin],
        "end_ns": marks["time_ns"][end],
        "examples": np.where(own, marks["examples"][end], marks["examples"][begin]),
        "asynchronous": marks["asynchronous"][end],
        "like": np.maximum(0, like[end]),  # marks of an older server have none
        "apart": np.zeros(len(end), np.int64),
    }
    if "node_ns" in marks:
        windows |= {name: marks[name][end] for name in ("node", "node_ns", "sender") if name in marks}
    return windows


def stepping(marks: Table) -> set[int]:
    """Ranks that these marks give steps to."""
    if not rows(marks):
        return set()
    return set(np.unique(marks["rank"][marks["kind"] <= MarkKind.BORDER]).tolist())


def latest(windows: Table) -> dict[tuple[int, int], int]:
    """(rank that stepped, node that reported) -> node time when the last of its windows ended."""
    found: dict[tuple[int, int], int] = {}
    if not rows(windows) or "node_ns" not in windows:
        return found
    own = take(windows, windows["window"] < 0)
    if not rows(own):
        return found
    key = joined(own["rank"], own["node"])
    order = np.argsort(key, kind="stable")
    firsts = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    ends = np.maximum.reduceat(own["node_ns"][order], firsts)
    who = own["rank"][order][firsts], own["node"][order][firsts]
    return dict(zip(zip(*(column.tolist() for column in who), strict=True), ends.tolist(), strict=True))


def are_done(windows: Table, done: Mapping[tuple[int, int], int]) -> Bools:
    """Which windows ended, on the clock of the node that reported, no later than what `latest` gave."""
    count = rows(windows)
    if not count or not done or "node_ns" not in windows:
        return np.zeros(count, np.bool_)
    ranks, nodes = np.array(list(done), np.int64).T
    who = np.where(windows["window"] < 0, windows["rank"], windows["window"])
    key = joined(np.append(ranks, who), np.append(nodes, windows["node"]))
    known, asked = key[: len(done)], key[len(done) :]
    order = np.argsort(known)
    ends = np.array(list(done.values()), np.int64)[order]
    at = np.minimum(np.searchsorted(known[order], asked), len(done) - 1)
    stored: Bools = (known[order][at] == asked) & (windows["node_ns"] <= ends[at])
    return stored


def attempts(windows: Table, who: str, *keys: str) -> Ints:
    """Which time it is, 0 the first, that the step of each window is done.

    who: the column with the rank whose windows they are. keys: the columns that name a step ("step", or
    "rank" and "step"). Numbers come again after a restart from a checkpoint and with every epoch that counts
    from 0. Of a step that a rank has done twice, a new attempt begins after a pause in which no rank was at
    it: one of more than half the shorter of the windows next to it.
    """
    found = np.zeros(rows(windows), np.int64)
    if rows(windows) < 2:
        return found
    # Nearly always no rank does a step twice, which is cheaper to see than all that follows.
    key = joined(*(windows[name] for name in dict.fromkeys((who, *keys))))
    if not (key[1:] > key[:-1]).all():
        key = np.sort(key)
    if (key[1:] > key[:-1]).all():
        return found
    order = np.lexsort((windows["begin_ns"], *(windows[key] for key in reversed(keys))))
    begin, end = windows["begin_ns"][order].astype(np.int64), windows["end_ns"][order].astype(np.int64)
    first = np.append(True, np.any([np.diff(windows[key][order]) != 0 for key in keys], axis=0))
    group = np.cumsum(first) - 1
    pause, lasted = begin[1:] - _running_max(end, group)[:-1], end - begin
    shorter = np.minimum(lasted[1:], lasted[:-1])
    gap = ~first[1:] & (2 * pause > shorter) & _done_twice(windows[who][order], group)[1:]
    jumps = np.cumsum(np.append(False, gap))
    found[order] = jumps - jumps[np.flatnonzero(first)][group]
    return found


def joined(*columns: Ints) -> Ints:
    """One number per row, the same for the same values in all columns and in their order: sorting it is much
    cheaper than sorting by several columns."""
    key, most = np.zeros(len(columns[0]), np.int64), 0
    for column in columns:
        low, span = int(column.min()), int(column.max()) - int(column.min()) + 1
        if span == 1:
            continue
        if (most + 1) * span >= 2**62:
            key, column = _numbered(key), _numbered(column)
            low, span, most = 0, int(column.max()) + 1, int(key.max())
        key *= span
        key += column - low
        most = (most + 1) * span - 1
    return key


def _numbered(column: Ints) -> Ints:
    """The place of each value among the distinct ones."""
    return np.unique(column, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _done_twice(who: Ints, group: Ints) -> Bools:
    """Per row, whether a rank is in its group twice."""
    order = np.lexsort((who, group))
    again = (np.diff(who[order]) == 0) & (np.diff(group[order]) == 0)
    twice = np.zeros(int(group[-1]) + 1, bool)
    twice[group[order][1:][again]] = True
    return twice[group]


def _running_max(values: Ints, group: Ints) -> Ints:
    """Largest value so far within each group; groups are consecutive, numbered upwards."""
    least, span = int(values.min()), int(values.max() - values.min()) + 1
    if (int(group[-1]) + 1) * span < 2**62:
        found: Ints = np.maximum.accumulate(values - least + group * span) - group * span + least
        return found
    parts = np.split(values, np.flatnonzero(np.diff(group)) + 1)
    return np.concatenate([np.maximum.accumulate(part) for part in parts])


def synchronous(windows: Table) -> bool:
    """Whether the ranks of these windows step together: step k of all of them shares a moment, nearly always.

    Marks that say their steps are independent decide; else at least nine of ten common steps must overlap.
    Common is a step that most ranks have: ranks join and leave.
    """
    if not rows(windows) or bool(np.any(windows["asynchronous"] != 0)):
        return False
    if (windows["rank"] == windows["rank"][0]).all():
        return True
    if (steps := _side_by_side(windows)) is not None:
        latest_begin, earliest_end = (windows[name].reshape(steps) for name in ("begin_ns", "end_ns"))
        return bool(np.mean(latest_begin.max(axis=0) < earliest_end.min(axis=0)) >= 0.9)
    key = joined(windows["step"], attempts(windows, "rank", "step"))
    order = np.argsort(key, kind="stable")
    at = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    count = np.diff(np.append(at, len(order)))
    latest_begin = np.maximum.reduceat(windows["begin_ns"][order], at)
    earliest_end = np.minimum.reduceat(windows["end_ns"][order], at)
    common = count >= max(2, (count.max() + 1) // 2)
    if not common.any():
        return False
    return bool(np.mean(latest_begin[common] < earliest_end[common]) >= 0.9)


def _side_by_side(windows: Table) -> tuple[int, int] | None:
    """(ranks, steps) of windows in order of rank, each of which did the same steps, one after the other and
    each once; None: these are not such windows. They usually are, and nothing has to be sorted."""
    rank, count = windows["rank"], rows(windows)
    steps = int(np.argmax(rank != rank[0])) or count
    if count % steps:
        return None
    rank, step = rank.reshape(-1, steps), windows["step"].reshape(-1, steps)
    in_order = (rank == rank[:, :1]).all() and (rank[1:, 0] > rank[:-1, 0]).all()
    same = (step == step[0]).all() and (step[0, 1:] > step[0, :-1]).all()
    return (count // steps, steps) if in_order and same else None


def last_needed(marks: Table, windows: Table, through_ns: int) -> int:
    """Earliest mark that a window ending after through_ns may still need; through_ns when there is none."""
    begins = windows["begin_ns"][windows["end_ns"] > through_ns]
    opened = _opened(marks)["time_ns"] if rows(marks) else begins
    return int(min([through_ns, *begins.tolist(), *opened.tolist()]))


def needed_before(marks: Table, windows: Table, through_ns: int, before_ns: int) -> Table:
    """All marks before before_ns that windows which end after through_ns may still need. Of each rank no more
    than the newest MOST_OPEN."""
    if not rows(marks):
        return {}
    opened = _opened(marks)
    opened = take(opened, opened["time_ns"] < before_ns)
    later = take(windows, (windows["end_ns"] > through_ns) & (windows["begin_ns"] < before_ns))
    needed = concatenate([_beginning(take(marks, marks["time_ns"] < before_ns), later), opened])
    if not rows(needed):
        return {}
    needed = take(needed, np.lexsort((needed["time_ns"], needed["rank"])))
    behind = np.searchsorted(needed["rank"], needed["rank"], side="right") - np.arange(rows(needed))
    return take(needed, behind <= MOST_OPEN)


def _beginning(marks: Table, windows: Table) -> Table:
    """The marks at which these windows begin."""
    some = take(marks, (marks["kind"] == MarkKind.BEGIN) | (marks["kind"] == MarkKind.BORDER))
    count = rows(some)
    if not count or not rows(windows):
        return {}
    ranks = np.append(some["rank"], windows["rank"])
    key = joined(ranks, np.append(some["time_ns"], windows["begin_ns"]))
    return take(some, np.isin(key[:count], key[count:]))


def _opened(marks: Table) -> Table:
    """The marks at which steps begin that have not ended yet."""
    # The newest BEGIN of each (rank, step) that neither an END nor a BORDER has closed yet.
    pairs = _begins_and_ends(marks)
    last = np.append((np.diff(pairs["rank"]) != 0) | (np.diff(pairs["step"]) != 0), True)[: rows(pairs)]
    begins = take(pairs, last & (pairs["kind"] == MarkKind.BEGIN))
    borders = _borders(marks, begins)
    is_border = borders["kind"] == MarkKind.BORDER
    still_open = ~is_border & ~np.append(_begun_apart(borders), False)[: rows(borders)]
    # Each rank's newest BORDER: the next step begins there.
    ends = take(borders, is_border)
    newest = np.append(np.diff(ends["rank"]) != 0, True)[: rows(ends)]
    return {name: np.concatenate((borders[name][still_open], ends[name][newest])) for name in borders}
