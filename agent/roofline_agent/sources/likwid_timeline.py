"""The timeline of `likwid-perfctr -t`: its lines, and a running one.

A header names the CPUs and metrics; a row is `group metrics cpus seconds`, then each metric's value per CPU.
Volumes are of that row alone (likwid-perfctr -h; groups MEM of LIKWID 5.2).
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from ..child_process import bare_environment, leashed

_GIGABYTE = 10**9
_SAID_LINES = 50

VOLUMES = {
    "Memory read data volume [GBytes]": "dram_read_bytes",
    "Memory write data volume [GBytes]": "dram_write_bytes",
    "Memory data volume [GBytes]": "dram_bytes",
}


class Header(NamedTuple):
    """What the columns of a timeline are."""

    cpus: tuple[int, ...]
    metrics: tuple[str, ...]


class Point(NamedTuple):
    """One row: bytes moved since the row before, by CPU and metric."""

    seconds: float
    moved: dict[tuple[int, str], float]


def header_of(lines: Sequence[str]) -> Header | None:
    """The header among the first lines; None while it is not complete."""
    cpus = next((line for line in lines if line.startswith("# Cores:")), None)
    names = next((line for line in lines if line.startswith("# GID|")), None)
    if cpus is None or names is None:
        return None
    numbers = tuple(int(number) for number in re.findall(r"\d+", cpus))
    return Header(numbers, tuple(names.split("|")[4:]))


def parse_row(line: str, header: Header) -> Point | None:
    """A row of the timeline; None for what is none, or has other columns than the header says."""
    try:
        values = [float(field) for field in line.split()]
    except ValueError:
        return None
    if len(values) != 4 + len(header.metrics) * len(header.cpus):
        return None
    moved = {}
    for at, name in enumerate(header.metrics):
        for nth, cpu in enumerate(header.cpus):
            if name in VOLUMES:
                moved[cpu, VOLUMES[name]] = values[4 + at * len(header.cpus) + nth] * _GIGABYTE
    return Point(values[3], moved)


def counted(metrics: Sequence[str]) -> list[str]:
    """Our metrics among a group's: both directions, or where they are not told apart their sum."""
    found = [ours for theirs, ours in VOLUMES.items() if theirs in metrics]
    return found if found == ["dram_bytes"] else [name for name in found if name != "dram_bytes"]


class Timeline:
    """A likwid-perfctr in timeline mode.

    Node times count from LIKWID's second 0, which is known from when rows were read: up to one of the agent's
    sampling intervals late at first, better with every row.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """command: ends with one that ends with its standard input. Raises OSError."""
        self._process = subprocess.Popen(
            leashed(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=bare_environment("LIKWID_"),
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._rest = ""
        self._said: list[str] = []
        self._header: Header | None = None
        self._last_ns = 0
        self.anchor_ns: int | None = None  # node time of LIKWID's second 0

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def said(self) -> str:
        """What it printed last that is no row."""
        return "\n".join([*self._said, self._rest])

    def take(self) -> list[tuple[int, Point]]:
        """(node time, row) of what came since the last call."""
        points = [point for line in self._read() if (point := self._point(line)) is not None]
        now = time.monotonic_ns()
        for point in points:
            latest = now - round(point.seconds * 1e9)
            self.anchor_ns = latest if self.anchor_ns is None else min(self.anchor_ns, latest)
        return [(self._time(point.seconds), point) for point in points]

    def _time(self, seconds: float) -> int:
        self._last_ns = max(self._last_ns + 1, (self.anchor_ns or 0) + round(seconds * 1e9))
        return self._last_ns

    def _point(self, line: str) -> Point | None:
        point = parse_row(line, self._header) if self._header else None
        if point is None:
            self._said = [*self._said[-_SAID_LINES:], line]
            self._header = self._header or header_of(self._said)
        return point

    def _read(self) -> list[str]:
        data = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._pipe, 65536):
                data += part
        *lines, self._rest = (self._rest + data.decode(errors="replace")).split("\n")
        return lines

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
