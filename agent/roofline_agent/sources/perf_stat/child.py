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
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from ...child_process import leashed
from .output import Reading, parse_line
from .probe import environment

_PIPE_BYTES = 1 << 18  # room for a minute of intervals, should the agent be late
_COMPLAINT = 2000  # characters of what perf says beside readings
_LAST_WORDS_S = 0.5


class Interval(NamedTuple):
    time_ns: int
    readings: tuple[Reading, ...]


class Child:
    """A perf process; `take` as often as wanted, `end` once."""

    def __init__(self, command: Sequence[str], lines: int = 0) -> None:
        """lines: how many make an interval; 0 where that is not known before. Raises OSError."""
        self._started_ns = time.monotonic_ns()
        self._process = subprocess.Popen(
            leashed(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        assert self._process.stderr is not None
        self._pipe = self._process.stderr.fileno()
        os.set_blocking(self._pipe, False)
        with contextlib.suppress(OSError):  # a user may have many pipes already
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._rest = ""
        self._open: list[Reading] = []
        self._lines = lines
        self._last_ns = 0
        self._arrived_ns: int | None = None
        self.anchor_ns: int | None = None  # node time of perf's second 0
        self.complaint = ""
        threading.Thread(
            target=self._watch, args=(os.dup(self._pipe),), name="perf-first-line", daemon=True
        ).start()

    def _watch(self, pipe: int) -> None:
        try:
            poll = select.poll()
            poll.register(pipe, select.POLLIN)
            if poll.poll(120_000):
                self._arrived_ns = time.monotonic_ns()
        finally:
            os.close(pipe)

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative: the signal that killed it."""
        return self._process.poll()

    def take(self) -> list[Interval]:
        """The intervals completed since the last call."""
        found: list[tuple[Reading, ...]] = []
        for line in self._read():
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

    def _read(self) -> list[str]:
        data = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._pipe, 65536):
                data += part
        *lines, self._rest = (self._rest + data.decode(errors="replace")).split("\n")
        return lines

    def _closed(self) -> tuple[Reading, ...]:
        readings, self._open = tuple(self._open), []
        self._lines = self._lines or len(readings)
        return readings

    def _dated(self, intervals: Sequence[tuple[Reading, ...]]) -> list[Interval]:
        for readings in intervals:
            self._settle(_end_ns(readings))
        return [Interval(self._time(_end_ns(readings)), readings) for readings in intervals]

    def _settle(self, end_ns: int) -> None:
        latest = time.monotonic_ns() - end_ns
        if self.anchor_ns is not None:
            self.anchor_ns = min(self.anchor_ns, latest)
            return
        arrived = (self._arrived_ns or 0) - end_ns
        # Earlier than our own start: what arrived first was not a reading but some warning.
        self.anchor_ns = arrived if self._started_ns <= arrived <= latest else latest

    def _time(self, end_ns: int) -> int:
        # A better estimate is an earlier one: time goes on all the same.
        self._last_ns = max(self._last_ns + 1, (self.anchor_ns or 0) + end_ns)
        return self._last_ns

    def end(self) -> list[Interval]:
        """Stop perf; the last, short interval, which it prints when interrupted."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(timeout=_LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            self._kill()
        last = self.take()
        if self._open:
            last += self._dated([self._closed()])
        assert self._process.stderr is not None
        self._process.stderr.close()
        return last

    def _kill(self) -> None:
        self._process.kill()
        # One that the kernel does not let go is left behind: waiting for it would cost the other ranks' rows.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_LAST_WORDS_S)


def _end_ns(readings: Sequence[Reading]) -> int:
    return round(readings[0].seconds * 1e9)
