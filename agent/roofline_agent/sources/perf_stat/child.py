"""One running `perf stat -I`: its intervals, each with the node time of its end.

perf counts seconds from a moment of its own, 5 to 50 ms after it was started. A thread that waits for the
first line knows when that was printed; later lines can only make the estimate better. What remains is the
time from perf's reading to our seeing the line: 0.1 to 0.3 ms as seen with perf 6.1, more on a node whose
CPUs are all taken. Never known: how late perf itself read its counters.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from ...child_process import ChildProcess
from .output import Reading, parse_line
from .probe import environment

_PIPE_BYTES = 1 << 18  # room for a minute of intervals, should the agent be late
_COMPLAINT = 2000  # characters of what perf prints in addition to readings
# perf prints a last interval when interrupted. One that the kernel does not let go is left behind: waiting
# for it would cost the other ranks' rows.
_LAST_INTERVAL_S = 0.5


class Interval(NamedTuple):
    time_ns: int
    readings: tuple[Reading, ...]


class PerfProcess:
    """A perf process; `take` as often as wanted, `end` once."""

    def __init__(self, command: Sequence[str], lines: int = 0) -> None:
        """lines: how many make an interval; 0 where that is not known before. Raises OSError."""
        self._started_ns = time.monotonic_ns()
        self._process = ChildProcess(command, environment(), reads_stderr=True)
        with contextlib.suppress(OSError):  # a user may have many pipes already
            fcntl.fcntl(self._process.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._open: list[Reading] = []
        self._lines = lines
        self._last_ns = 0
        self._arrived_ns: int | None = None
        self.anchor_ns: int | None = None  # node time of perf's second 0
        self.complaint = ""
        pipe = os.dup(self._process.fileno())
        threading.Thread(target=self._await_first, args=(pipe,), name="perf-first-line", daemon=True).start()

    def _await_first(self, pipe: int) -> None:
        try:
            poll = select.poll()
            poll.register(pipe, select.POLLIN)
            if poll.poll(120_000):
                self._arrived_ns = time.monotonic_ns()
        finally:
            os.close(pipe)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_printed(self) -> bool:
        """Whether its first line has come, taken or not."""
        return self._arrived_ns is not None

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative: the signal that killed it."""
        return self._process.returncode

    def take(self) -> list[Interval]:
        """The intervals completed since the last call."""
        found: list[tuple[Reading, ...]] = []
        for line in self._process.lines_so_far():
            reading = parse_line(line)
            if reading is None:
                self.complaint = (self.complaint + line + "\n")[:_COMPLAINT]
                continue
            if self._open and reading.seconds != self._open[0].seconds:
                found.append(self._closed())
            self._open.append(reading)
            if len(self._open) == self._lines:
                found.append(self._closed())
        return self._dated(found)

    def _closed(self) -> tuple[Reading, ...]:
        readings, self._open = tuple(self._open), []
        self._lines = self._lines or len(readings)
        return readings

    def _dated(self, intervals: Sequence[tuple[Reading, ...]]) -> list[Interval]:
        # The anchor first: a later interval may improve it for all.
        ends_ns = [round(readings[0].seconds * 1e9) for readings in intervals]
        for end_ns in ends_ns:
            self._improve_anchor(end_ns)
        dated = []
        for end_ns, readings in zip(ends_ns, intervals, strict=True):
            # A better estimate is an earlier one: time goes on all the same.
            self._last_ns = max(self._last_ns + 1, (self.anchor_ns or 0) + end_ns)
            dated.append(Interval(self._last_ns, readings))
        return dated

    def _improve_anchor(self, end_ns: int) -> None:
        latest = time.monotonic_ns() - end_ns
        if self.anchor_ns is not None:
            self.anchor_ns = min(self.anchor_ns, latest)
            return
        arrived = (self._arrived_ns or 0) - end_ns
        # Earlier than our own start: what arrived first was not a reading but some warning.
        self.anchor_ns = arrived if self._started_ns <= arrived <= latest else latest

    def end(self) -> list[Interval]:
        """Stop perf; the last, short interval, which it prints when interrupted."""
        self._process.stop(signal.SIGINT, _LAST_INTERVAL_S)
        last = self.take()
        if self._open:
            last += self._dated([self._closed()])
        self._process.close(wait_s=0)
        return last
