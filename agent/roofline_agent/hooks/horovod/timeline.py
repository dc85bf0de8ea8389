"""Horovod: reports whether a timeline shows what it fuses and executes, and what to do if none does."""

from __future__ import annotations

import os
from typing import Any

from .. import Marker

READ = "ROOFLINE_HOROVOD_TIMELINE_READ"  # set by the wrapper for a rank whose timeline it reads
NONE = (
    "none: give `roofline-agent run --horovod-timeline` to all ranks to see what Horovod fuses and executes"
)


def report(marker: Marker, environ: Any = os.environ) -> None:
    """Report from where it is known what Horovod executes."""
    if environ.get(READ):
        marker.fact("horovod.timeline", "read at rank 0")
    elif not environ.get("HOROVOD_TIMELINE"):
        marker.fact("horovod.timeline", NONE)
