"""PyTorch: short steps in which nothing unusual happens. Their hooks note what happened and when, nothing
more; what that means is worked out for many steps together.

Between two steps a training pushes the code of hooks and their data out of the caches, so each line of them
costs ten times what it does in a loop of its own. Together they are worked out with warm caches.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional

from .phases import BACKWARDS, FETCHED, FORWARDS, GRADIENTS_READY, INPUTS, LEAVES, OPTIMIZES

PASSED, UPDATED = 16, 17  # in addition to events of phases.py: the end of a backward, and of an update
MOST_DISTURBED = 16  # calm stretches in a row that were broken off: such a training is left alone


# What most steps are, and their events: of a rank alone, and of one of DDP.
PLAIN = {
    (FETCHED, BACKWARDS, PASSED, OPTIMIZES, UPDATED): bytes(
        [INPUTS, FETCHED, BACKWARDS, LEAVES, OPTIMIZES, LEAVES]
    ),
    (FETCHED, FORWARDS, BACKWARDS, GRADIENTS_READY, PASSED, OPTIMIZES, UPDATED): bytes(
        [INPUTS, FETCHED, FORWARDS, BACKWARDS, GRADIENTS_READY, LEAVES, OPTIMIZES, LEAVES]
    ),
}


class PlainSteps(NamedTuple):
    """Steps that are all alike and follow on one another."""

    events: bytes  # of each
    sizes: Any  # examples and shapes of the batch of each
    times: List[List[int]]  # of each: of its events, and when it ended


def work_out(record: Any, log: List[Any]) -> None:
    """log: what and when, in order; of a fetch also its end, its queue and its sizes (batches.py), of an
    update perhaps what its thread had in the step."""
    at = 0
    while at < len(log):
        plain = plain_steps(log, at, record.sizes.known)
        if plain is not None and record.plain_steps(plain):
            at += len(plain.times) * (len(plain.events) - 1)  # a fetch is two events
        else:
            _work_out_one(record, *log[at])
            at += 1


def plain_steps(log: List[Any], at: int, known: Any) -> Optional[PlainSteps]:
    """The plain steps of one size that stand there behind one another."""
    if log[at][0] != FETCHED:
        return None
    for codes, events in PLAIN.items():
        sizes, times = log[at][4], []  # type: Any, List[List[int]]
        for first in range(at, len(log) - len(codes) + 1, len(codes)):
            step = log[first : first + len(codes)]
            if tuple([one[0] for one in step]) != codes or not step[0][3].used or step[0][4] != sizes:
                break
            if len(step[-1]) > 2:  # its thread was measured
                break
            end = step[-1][1]
            times.append([step[0][1], step[0][2], *[one[1] for one in step[1:]], end])
        if times:
            return PlainSteps(events, known(sizes), times)
    return None


def _work_out_one(record: Any, what: int, now: int, *more: Any) -> None:
    note, batches = record.note, record.batches
    if what == FETCHED:
        end, queue, sizes = more
        note(INPUTS, now)
        queue.sizes.append(record.sizes.known(sizes))
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
        record.end_step(now, True, *more)
    else:
        note(what, now)
