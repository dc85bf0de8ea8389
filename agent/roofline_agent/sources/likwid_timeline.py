"""A running `likwid-perfctr -t`: the DRAM bytes of each of its rows, placed in node time.

Its lines are parsed as those of a recorded file are (recorded/likwid/timeline.py).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from ..child_process import bare_environment, ending_with_us
from ..recorded.likwid.metrics import metric
from ..recorded.likwid.timeline import TimelineHeader, parse_row
from ..recorded.numbers import finite

_OTHER_LINES = 50  # the last ones, to tell why LIKWID ended
VOLUMES = ("dram_read_bytes", "dram_write_bytes", "dram_bytes")


class VolumeInterval(NamedTuple):
    """One row."""

    seconds: float  # since LIKWID's start
    moved: dict[tuple[int, str], float]  # bytes since the row before, by hardware thread and metric


class VolumeReader:
    """Reads memory volumes from LIKWID's lines, header first."""

    def __init__(self) -> None:
        self._header = TimelineHeader()

    @property
    def metrics(self) -> list[str]:
        """Metrics to count: both directions, or their sum where the group does not tell them apart."""
        names = {metric(name).metric for columns in self._header.names for name in columns}
        directions = [name for name in VOLUMES[:2] if name in names]
        return directions or [name for name in VOLUMES[2:] if name in names]

    def read(self, line: str) -> VolumeInterval | None:
        """None for a line that is no row, does not fit the header, or lacks a volume ("-": not counted)."""
        if self._header.take(line):
            return None
        row = parse_row(line)
        if row is None or len(self._header.cpus) != row.cpus:
            return None
        names = self._header.names_of(row.group, row.metrics, row.cpus)
        moved: dict[tuple[int, str], float] = {}
        for at, name in enumerate(names):
            means = metric(name)
            if means.metric not in VOLUMES:
                continue
            cells = row.cells[at * row.cpus : (at + 1) * row.cpus]
            for cpu, cell in zip(self._header.cpus, cells, strict=True):
                volume = finite(cell)
                if volume is None:
                    return None
                moved[int(cpu), means.metric] = volume * means.factor
        return VolumeInterval(row.time_s, moved) if names else None


class RunningTimeline:
    """A likwid-perfctr in timeline mode.

    Node times count from LIKWID's second 0, which is known from when rows were read: up to one of the agent's
    sampling intervals late at first, better with every row.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """command: ends with one that ends with its standard input. Raises OSError."""
        self._process = subprocess.Popen(
            ending_with_us(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=bare_environment("LIKWID_"),
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._rest = ""
        self._others: list[str] = []
        self._reader = VolumeReader()
        self._last_ns = 0
        self.anchor_ns: int | None = None  # node time of LIKWID's second 0

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def messages(self) -> str:
        """The last lines that are no rows."""
        return "\n".join([*self._others, self._rest])

    def take(self) -> list[tuple[int, VolumeInterval]]:
        """(node time, row) of what was printed since the last call."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._pipe, 65536):
                data += part
        *lines, self._rest = (self._rest + data.decode(errors="replace")).split("\n")

        intervals: list[VolumeInterval] = []
        for line in lines:
            interval = self._reader.read(line)
            if interval is None:
                self._others = [*self._others[-_OTHER_LINES:], line]
            else:
                intervals.append(interval)

        now = time.monotonic_ns()
        for interval in intervals:
            latest = now - round(interval.seconds * 1e9)
            self.anchor_ns = latest if self.anchor_ns is None else min(self.anchor_ns, latest)
        timed: list[tuple[int, VolumeInterval]] = []
        for interval in intervals:
            # An anchor that moved back must not turn the order of rows around.
            self._last_ns = max(self._last_ns + 1, (self.anchor_ns or 0) + round(interval.seconds * 1e9))
            timed.append((self._last_ns, interval))
        return timed

    def end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
