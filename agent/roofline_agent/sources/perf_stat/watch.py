"""Keeps a `perf stat` running on something and sums its counts; one that dies is started again later."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .child import Interval, PerfProcess
from .totals import CounterRow, Totals

_FIRST_PAUSE_NS = 1_000_000_000
_LONGEST_PAUSE_NS = 60_000_000_000
SILENT_NS = 10_000_000_000  # beyond three intervals: a perf that has counted none by then is complained of


class Watch:
    """One thing watched: a rank, or the node."""

    def __init__(self, command: Callable[[int], Sequence[str]], totals: Totals, lines: int = 0) -> None:
        """command: for an interval in ms. lines: how many perf prints an interval, 0 if not known."""
        self._command = command
        self._totals = totals
        self._lines = lines
        self._child: PerfProcess | None = None
        self._begun = False  # the child has counted an interval
        self._pause_ns = _FIRST_PAUSE_NS
        self._not_before_ns = 0
        self._started_ns = 0
        self.complaint = ""  # why perf ended; whoever reads it clears it

    def take(self, interval_ms: int) -> list[CounterRow]:
        """Rows since the last call. Starts perf where none runs and its pause is over."""
        if self._child is None and time.monotonic_ns() >= self._not_before_ns:
            try:
                self._child = PerfProcess(self._command(interval_ms), self._lines)
            except OSError as error:
                self._pause(f"perf cannot be started: {error.strerror or error}")
            self._begun = False
            self._started_ns = time.monotonic_ns()
        child = self._child
        if child is None:
            return []

        ended = child.returncode is not None  # asked before its last lines are read
        rows = self._rows(child, child.take())
        if ended:
            rows += self.end()
            code = child.returncode or 0
            complaint = f"perf ended ({'signal' if code < 0 else 'status'} {abs(code)})"
            text = " ".join(child.complaint.split())[:300]
            self._pause(f"{complaint}: {text}" if text else complaint)
        elif not self._begun:
            silent_ns = time.monotonic_ns() - self._started_ns
            if silent_ns > SILENT_NS + 3_000_000 * interval_ms:
                self.complaint = self.complaint or "perf runs, but has printed no interval yet"
        return rows

    def _rows(self, child: PerfProcess, intervals: Sequence[Interval]) -> list[CounterRow]:
        rows = []
        for interval in intervals:
            if not self._begun and child.anchor_ns is not None:
                rows += self._totals.begun(child.anchor_ns, interval)
                self._begun = True
                self._pause_ns = _FIRST_PAUSE_NS
            rows += self._totals.add(interval)
        return rows

    def _pause(self, complaint: str) -> None:
        self.complaint = complaint
        self._not_before_ns = time.monotonic_ns() + self._pause_ns
        self._pause_ns = min(_LONGEST_PAUSE_NS, 2 * self._pause_ns)

    def end(self) -> list[CounterRow]:
        """Stop perf; its last rows."""
        child, self._child = self._child, None
        return self._rows(child, child.end()) if child else []
