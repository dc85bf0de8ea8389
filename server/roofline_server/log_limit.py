"""Keeps the log readable, and its disk free, whatever a client sends: few lines a minute of a statement."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES, WINDOW_S = 10, 60.0


class _Count:
    """Lines of one statement."""

    def __init__(self, since_s: float) -> None:
        self.since_s, self.lines = since_s, 0


class LogLimit(logging.Filter):
    """For a handler. The first line that is written after others were left out says how many these were."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counts: dict[tuple[str, int], _Count] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, place = self._clock(), (record.pathname, record.lineno)
        count = self._counts.setdefault(place, _Count(now))
        left_out = 0
        if now - count.since_s >= WINDOW_S:
            left_out = max(0, count.lines - LINES)
            count.since_s, count.lines = now, 0
        count.lines += 1
        if left_out:
            record.msg = f"{record.msg} ({left_out} lines like this one were left out before it)"
        if count.lines == LINES:
            record.msg = f"{record.msg} (more of these are left out for a minute)"
        return count.lines <= LINES
