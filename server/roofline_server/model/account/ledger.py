"""Assigns the time of steps to the parts of an account, never more than there is."""

from __future__ import annotations

import numpy as np
from roofline.answers.values import Provenance

from ...records import Floats

# In the order in which they are shown. Merged parts stand where their first name does.
PARTS = (
    "input",
    "compute",
    "host",
    "gc",
    "contention",
    "stopped",
    "throttled",
    "paging",
    "disk",
    "transfer",
    "wait_ranks",
    "wait_ps",
    "blocked",
    "other",
)
HELD = "transfer|wait_ranks"  # of one rank alone: what it waits for is seen only beside the others
UNSEEN = "transfer|wait_ranks|blocked"  # of ranks that meet, in a step in which that was not seen

MEASURED, ESTIMATED = Provenance.MEASURED, Provenance.ESTIMATED


class Ledger:
    """Gives away the time of steps, never more than there is. What is not known of a step (NaN) takes nothing
    of it."""

    def __init__(self, duration: Floats) -> None:
        self.whole: Floats = np.maximum(duration, 0.0)
        self.left = self.whole
        self.parts: dict[str, Floats] = {}
        self.provenance: dict[str, Provenance] = {}

    def take(self, part: str, seconds: Floats, provenance: Provenance = MEASURED) -> Floats:
        """Give `part` these seconds of what is left; returns what it got."""
        got = np.minimum(np.fmax(seconds, 0.0), self.left)
        self.left = self.left - got
        self._add(part, got, provenance)
        return got

    def move(self, source: str, part: str, seconds: Floats, provenance: Provenance = MEASURED) -> Floats:
        """Give `part` what another had; returns how much that was."""
        if source not in self.parts:
            return np.zeros_like(self.left)
        got = np.minimum(np.fmax(seconds, 0.0), self.parts[source])
        self.parts[source] = self.parts[source] - got
        self._add(part, got, provenance)
        return got

    def _add(self, part: str, seconds: Floats, provenance: Provenance) -> None:
        known = self.parts.get(part)
        self.parts[part] = seconds if known is None else known + seconds
        if self.provenance.get(part) != ESTIMATED:
            self.provenance[part] = provenance


def place(part: str) -> tuple[int, str]:
    """In which order parts are shown."""
    return PARTS.index(part.partition("|")[0]), part
