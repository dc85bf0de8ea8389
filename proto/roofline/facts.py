"""Names of facts that agents make and the server reads. One travels as the text "NAME=VALUE".

Those that hooks make are spelled there, too: they may import nothing.
"""

from __future__ import annotations

# Of a node, from begin to end of a batch: "INTERVAL: REASON", "TIMES: REASON", "SECONDS: REASON".
SLOWED, FEWER, HELD = "sampling.slowed", "kernels.fewer", "batches.held"

# Of a rank.
CLAIMED = "rank.claimed"  # the processes of a node that say they are this rank
LEFT = "rank.left"  # the process is not this rank, but another, or has started those that are ranks
TRACE_STATE = "trace.state"  # what became of the last trace of its steps
STEPS_FROM = "steps.from"  # how its steps were seen where it was not by a hook
LEFT_OUT = "steps.left_out"  # updates by optimizers that are in no step
