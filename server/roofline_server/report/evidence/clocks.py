"""How exactly the steps of ranks on several nodes can be compared."""

from __future__ import annotations

import numpy as np

from ...model.evidence import NS
from ...store.view import JobView
from ..ranks.members import latest_process
from .barriers import Barriers

MOMENTS = 33  # of the steps, at which clocks are asked


def clock_error(view: JobView, barriers: Barriers) -> float:
    """By how much times of two of these ranks may be off against each other, in most of their steps; s. 0 on
    one node, infinite where a clock was never compared with the server's."""
    processes = [latest_process(view, number) for number in barriers.ranks]
    nodes = {who.node for who in processes if who is not None} - view.recordings
    if len(nodes) < 2 or not len(barriers.grid.at):
        return 0.0
    moments = np.linspace(barriers.grid.begin_ns[0], barriers.grid.end_ns[-1], MOMENTS).astype(np.int64)
    clocks = [view.clocks[node] for node in nodes]
    errors = sorted(float(np.median(clock.error_at(clock.to_node(moments)))) for clock in clocks)
    return (errors[-1] + errors[-2]) / NS
