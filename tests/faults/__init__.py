"""Breaks the product on purpose: faults of disks, processes and networks, odd input, long runs.

`python -m tests.faults` runs the fault matrix, `... fuzz TARGET` a fuzz target, `... soak` a soak.
"""

import os

# gRPC's C core would print each connection that fails; it reads this when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
