"""What takes the place of a batch that was acknowledged and can no longer be read."""

from __future__ import annotations

import numpy as np

from ...records import NODE_JOB, NODE_RANK, DecodedBatch, EventKind, Frame

WHAT = "batches (the server's inbox is damaged)"


def lost_batch(sequence: int, node: int, time_ns: int) -> DecodedBatch:
    """Nothing but an event of the node, which all reports of its jobs of that time show."""
    numbers = {"kind": int(EventKind.LOST), "time_ns": time_ns, "end_ns": time_ns, "count": 1}
    events = {name: np.array([value], np.int64) for name, value in numbers.items()}
    events["text"] = np.array([WHAT], object)
    for name, value in (("rank", NODE_RANK), ("node", node), ("start_ns", 0)):
        events[name] = np.array([value], np.int64)
    return DecodedBatch(sequence, time_ns, time_ns, [Frame(NODE_JOB, "events", events)], [], {}, ())
