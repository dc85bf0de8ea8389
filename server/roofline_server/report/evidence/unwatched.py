"""When a rank was there and nobody watched it: steps that it did are missing then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from ...correlate.kernels import merge
from ...records import EventKind, Incarnation, Ints, rows
from ...store.view import JobView, once
from ..ranks.members import RUNNING_NS, lives
from .tables import where

FOREVER = 1 << 62  # later than any step; the last of a rank may have ended after its process was seen last
GAP_NS = 1_000_000  # shorter holes between two batches are no gap


@once
def watched_of(view: JobView, node: int) -> tuple[Ints, Ints]:
    """Begins and ends of the stretches in which an agent watched the node; its node time."""
    seen = where(view.watched.get(node, {}), "kind", EventKind.BATCH)
    if not rows(seen):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return merge(seen["time_ns"].astype(np.int64), seen["end_ns"].astype(np.int64), GAP_NS)


@once
def unwatched_of(view: JobView) -> dict[int, Ints]:
    """rank -> stretches in which it was there, or may have been, and nobody watched its node: (stretches,
    begin and end), server time, in order and apart; of ranks that were always watched nothing."""
    by_node: dict[int, list[Incarnation]] = {}
    for who in view.process_lifetimes:
        if who.pid and who.node not in view.recordings:
            by_node.setdefault(who.node, []).append(who)
    found: dict[int, list[tuple[int, int]]] = {}
    for node, processes in by_node.items():
        for who, holes in zip(processes, _holes_of_each(view, node, processes), strict=True):
            if holes:
                found.setdefault(who.rank, []).extend(holes)
    return {number: _apart(np.array(holes, np.int64)) for number, holes in found.items()}


def _apart(holes: Ints) -> Ints:
    return np.stack(merge(holes[:, 0], holes[:, 1]), axis=1)


def _holes_of_each(view: JobView, node: int, processes: Sequence[Incarnation]) -> list[list[tuple[int, int]]]:
    """Of each of these processes of a node the stretches in which it was not watched; server time."""
    begins, ends = watched_of(view, node)
    if not len(begins):
        return [[] for _ in processes]
    starts = np.array([who.start_ns for who in processes], np.int64)
    times = view.clocks[node].to_server(np.concatenate([begins, ends, starts])).tolist()
    begun, ended, started = times[: len(begins)], times[len(begins) : -len(starts)], times[-len(starts) :]
    between = list(zip(ended[:-1], begun[1:], strict=True))
    found = []
    for who, start in zip(processes, started, strict=True):
        first, last = lives(view)[who]
        exited = view.process_lifetimes[who].exited
        # How long before a hole it may have been seen last, and was still there when the hole began.
        slack = 0 if exited else RUNNING_NS
        holes = [(start, min(begun[0], first))]
        # It was there if it was before, or began within; one that was taken for a rank only later was none.
        holes += [
            (max(begin, start), end)
            for begin, end in between
            if begin - last < slack and (first <= begin or begin < start)
        ]
        if not exited and ended[-1] - last < slack:
            holes.append((ended[-1], restart_after(view, ended[-1], FOREVER)))
        found.append([(begin, end) for begin, end in holes if begin < end])
    return found


def restart_after(view: JobView, silent_ns: int, otherwise: int) -> int:
    """Until when a rank that is silent may go on: until another is started again, then without it as far as
    is known. otherwise: where none is."""
    restarts = _restarts(view)
    at = bisect_right(restarts, silent_ns)
    return restarts[at] if at < len(restarts) else otherwise


@once
def _restarts(view: JobView) -> list[int]:
    """Begins of the processes that were not the first of their rank."""
    begins: dict[int, list[int]] = {}
    for who, (begin, _) in lives(view).items():
        if who.pid:
            begins.setdefault(who.rank, []).append(begin)
    return sorted(begin for mine in begins.values() for begin in sorted(mine)[1:])
