"""When to read lines of kernels that cannot be switched off: oneDNN's in TensorFlow.

They are printed in every step then; reading and sending them takes as much again. So if they come fast, they
are read for a while and discarded unread for a while, so that only some of the time is read.
"""

from __future__ import annotations

import os

LINE_S = 4e-6  # to read one and to send what it says
OURS = 0.1  # of the budget
ENOUGH, SHORTEST_S = 10_000, 5.0  # lines, and seconds, of a stretch that is read: it must hold many steps
LEAST_SAVED = 2  # below it all are read


class LineReading:
    """Told the time and how many lines have come, it says whether to read. Pure."""

    def __init__(self, overhead: float, cpus: int | None = None) -> None:
        """overhead: share of the time of all CPUs that all of ours may take."""
        self._lines_per_s = OURS * overhead * (cpus or os.cpu_count() or 1) / LINE_S
        self.period = 1  # of so much time one part is read
        self._since: float | None = None  # of this stretch; None: no line has come yet
        self._lines = 0  # until then
        self._pause_until = 0.0

    def wanted(self, now_s: float, lines: int) -> bool:
        """Whether lines should be read from now on. lines: so far, read or not."""
        if now_s < self._pause_until:
            return False
        if self._since is None or self._pause_until:
            if lines:
                self._since, self._lines, self._pause_until = now_s, lines, 0.0
            return True
        lasted, came = now_s - self._since, lines - self._lines
        if lasted >= SHORTEST_S and came >= ENOUGH:
            needed = came / lasted / self._lines_per_s
            self.period = round(needed) if needed >= LEAST_SAVED else 1
            self._pause_until = now_s + (self.period - 1) * lasted if self.period > 1 else 0.0
            self._since, self._lines = now_s, lines
        return now_s >= self._pause_until
