"""PyTorch: short steps in which nothing unusual happens. Their hooks note what happened and when, nothing
more; what that means is worked out for many steps together.

Between two steps a training pushes the code of hooks and their data out of the caches, so each line of them
costs ten times what it does in a loop of its own. Together they are worked out with warm caches.
"""

from __future__ import annotations

from typing import Any, List

from .torch_phases import BACKWARDS, FETCHED, FORWARDS, INPUTS, LEAVES, OPTIMIZES

PASSED, UPDATED = 16, 17  # beside events of torch_phases: the end of a backward, and of an update
MOST_DISTURBED = 16  # calm stretches in a row that were broken off: such a training is left alone


def work_out(record: Any, log: List[Any]) -> None:
    """log: what and when, in order; of a fetch also its end, its queue and its sizes (torch_batches)."""
    note, batches = record.note, record.batches
    for what, now, *fetched in log:
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
