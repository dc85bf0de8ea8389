"""PyTorch: short steps in which nothing unusual happens. Their hooks note what happened and when, nothing
more; what that means is worked out for many steps together.

Between two steps a training pushes the code of hooks and their data out of the caches, so each line of them
costs ten times what it does in a loop of its own. Together they are worked out with warm caches.
"""

from __future__ import annotations

from typing import Any, List, Tuple

from .torch_phases import BACKWARDS, FETCHED, FORWARDS, INPUTS, LEAVES, OPTIMIZES

PASSED, UPDATED = 16, 17  # beside events of torch_phases: the end of a backward, and of an update
BREAK_NS = 150000  # what it takes, with cold caches, to work out calm steps before one that is measured
MOST_DISTURBED = 16  # calm stretches in a row that were broken off: such a training is left alone


# What most steps are, and their events.
PLAIN = FETCHED, BACKWARDS, PASSED, OPTIMIZES, UPDATED
PLAIN_EVENTS = bytes([INPUTS, FETCHED, BACKWARDS, LEAVES, OPTIMIZES, LEAVES])


def work_out(record: Any, log: List[Any]) -> None:
    """log: what and when, in order; of a fetch also its end, its queue and its sizes (torch_batches)."""
    at = 0
    while at < len(log):
        sizes, steps = plain_steps(log, at)
        if steps and record.plain_steps(sizes, steps):
            at += len(steps) * len(PLAIN)
        else:
            _work_out_one(record, *log[at])
            at += 1


def plain_steps(log: List[Any], at: int) -> Tuple[Any, List[List[int]]]:
    """The plain steps of one size that stand there behind one another: sizes, and of each the times of its
    events and of its end."""
    found: List[List[int]] = []
    sizes = None
    for first in range(at, len(log) - len(PLAIN) + 1, len(PLAIN)):
        fetch, backward, passed, update, updated = log[first : first + len(PLAIN)]
        codes = fetch[0], backward[0], passed[0], update[0], updated[0]
        if codes != PLAIN or not fetch[3].used or (found and fetch[4] != sizes):
            break
        sizes, end = fetch[4], updated[1]
        found.append([fetch[1], fetch[2], backward[1], passed[1], update[1], end, end])
    return sizes, found


def _work_out_one(record: Any, what: int, now: int, *fetched: Any) -> None:
    note, batches = record.note, record.batches
    if what == FETCHED:
        end, queue, sizes = fetched
        note(INPUTS, now)
        queue.sizes.append(sizes)
        note(FETCHED, end)
    elif what == BACKWARDS:
        batches.backward()
        note(BACKWARDS, now)
    elif what == PASSED:
        note(LEAVES, now)
        if batches.waiting():  # fetched ahead: the next forward follows at once
            note(FORWARDS, now)
    elif what == UPDATED:
        note(LEAVES, now)
        record.end_step(now)
    elif what == OPTIMIZES:
        note(OPTIMIZES, now)
