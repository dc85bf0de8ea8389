"""How long work takes at least: the time that the roof needs for it (Williams, Waterman, Patterson 2009; with
launches as in Wang et al. 2020, section III)."""

from __future__ import annotations

import numpy as np

from ...records import Floats
from .roofs import Limits


def least_time(
    flops: Floats, moved: Floats | None, launches: Floats | None, limits: Limits, parts: float
) -> Floats | None:
    """Seconds of each step that its FLOPs, its bytes or its launches need at least, whichever takes longest.

    flops, moved (bytes), launches: a step. parts: how many ranks share the place, each has one part of its
    ceilings. None: the ceiling of compute is not known; without that of memory the FLOPs alone count.
    """
    if limits.compute is None:
        return None
    found: Floats = flops * parts / limits.compute.value
    slope = limits.bandwidth()
    if moved is not None and slope is not None:
        found = np.fmax(found, moved * parts / slope.value)
    if launches is not None and limits.launch is not None:
        found = np.fmax(found, launches * limits.launch.value)
    return found
