"""How fast a node's clock drifts, as the server's clock of it places late moments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from roofline_server.clock import WANDER, NodeClock

LATE_NS, OVER_NS = 2**61, 2**60  # later than any exchange


class Drift(NamedTuple):
    """Change of the offset per node time, positive where the server's clock is the faster one."""

    ppm: float
    error_ppm: float  # of the mean over the time it was measured in


def drift_of(clock: NodeClock) -> Drift:
    moments = np.array([LATE_NS, LATE_NS + OVER_NS], np.int64)
    offset, later = (clock.to_server(moments) - moments).tolist()
    error, grown = clock.error_at(moments).tolist()
    return Drift((later - offset) / OVER_NS * 1e6, ((grown - error) / OVER_NS - WANDER) * 1e6)
