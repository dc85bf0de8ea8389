"""The time line of `likwid-perfctr -t`: a row every interval, all CPUs' values of one metric after another.

The columns' names stand in a header that goes to standard output while the rows go to standard error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..collect import Collector
from ..records import Counter
from .metrics import Meaning, kind, metric, number, numbers
from .sums import Point, is_summed

_HEADER = re.compile(r"# ?GID[|,]")
_CORES = re.compile(r"# ?(?:CORES|Cores|HWThreads|HWTHREADS): ?([\d|,]+)")
_MAX_GROUPS = 1000


def is_header(line: str) -> bool:
    return bool(_HEADER.match(line) or _CORES.match(line))


def fields(line: str) -> tuple[int, int, int, float, list[str]] | None:
    """Group, metrics, CPUs, seconds and the values of a row; None for any other line."""
    if not line[:1].isdigit():
        return None
    cells = line.replace(",", " ").split()
    if len(cells) < 5 or not all(cell.isascii() and cell.isdigit() and len(cell) < 7 for cell in cells[:3]):
        return None
    group, metrics, cpus = (int(cell) for cell in cells[:3])
    time_s = number(cells[3])
    if time_s is None or time_s < 0 or metrics * cpus != len(cells) - 4 or not metrics:
        return None
    return group, metrics, cpus, time_s, cells[4:]


class _Head:
    """What the header of one file says."""

    def __init__(self) -> None:
        self.names: list[list[str]] = []  # different headers, in the order of their groups
        self.cores: list[str] = []

    def take(self, line: str) -> bool:
        cores = _CORES.match(line)
        if cores:
            self.cores = re.split(r"[|,]", cores[1])
            return True
        if not _HEADER.match(line):
            return False
        names = [name.strip() for name in line.strip().split("|" if "|" in line else ",")][4:]
        if names and names not in self.names and len(self.names) < _MAX_GROUPS:
            self.names.append(names)
        return True

    def names_of(self, group: int, metrics: int, cpus: int) -> list[str]:
        """The metrics' names of a row, [] where none fit; some versions repeat a name for each CPU."""
        fitting = [names for names in self.names if len(names) in (metrics, metrics * cpus)]
        if not fitting:
            return []
        names = fitting[(group - 1) % len(fitting)] if group > 0 else fitting[0]
        return names if len(names) == metrics else names[::cpus]


def _head_of(text: str) -> _Head:
    head = _Head()
    for line in text.split("\n"):
        head.take(line.rstrip("\r"))
    return head


class _Column(NamedTuple):
    """What the values that stand at one place of a row are."""

    name: str
    means: Meaning
    kind: str
    where: str
    cpu: str
    is_dram: bool
    is_summed: bool


class TimeLine:
    """Takes the lines of one file in order."""

    def __init__(self, found: Collector, companions: Sequence[str]) -> None:
        self.found = found
        self.rows = 0
        self.headers = 0
        self.blind = False  # LIKWID said that it may not read the memory controllers
        self._own = _Head()
        self._others = [head for companion in companions if (head := _head_of(companion)).names]
        self._columns: dict[tuple[int, int, int], list[_Column]] = {}  # by group, metrics, CPUs
        self._unnamed = False
        self._point = Point()
        self._groups: set[int] = set()
        self._last_s = 0.0
        self._short_steps = 0

    def header(self, line: str) -> bool:
        taken = self._own.take(line)
        self._columns.clear()
        self.headers += taken
        return taken

    def line(self, line: str) -> bool:
        """Take in one line; False: it is no row."""
        row = fields(line)
        if row is None:
            return False
        group, metrics, cpus, time_s, cells = row
        self.rows += 1
        if len(self._groups) < _MAX_GROUPS:
            self._groups.add(group)
        self._watch(time_s, cells[0])
        columns = self._columns.get((group, metrics, cpus)) or self._columns_of(group, metrics, cpus)
        self._values(columns, cells, time_s)
        return True

    def _columns_of(self, group: int, metrics: int, cpus: int) -> list[_Column]:
        places = [self._core(cpu) for cpu in range(cpus)]
        columns: list[_Column] = []
        for name in self._names_of(group, metrics, cpus):
            unnamed = name.startswith("column ")
            means = Meaning(name, 1.0, "") if unnamed else metric(name)
            is_dram, summed = means.metric.startswith("dram_"), is_summed(means, name)
            columns += [
                _Column(name, means, kind(means.unit), where, str(cpu), is_dram, summed)
                for cpu, where in enumerate(places)
            ]
            self._unnamed |= unnamed
        if len(self._columns) < _MAX_GROUPS:
            self._columns[group, metrics, cpus] = columns
        return columns

    def _values(self, columns: list[_Column], cells: list[str], time_s: float) -> None:
        reading = Point()
        append = self.found.counters.append
        for column, printed in zip(columns, numbers(cells), strict=True):
            name, means, how, where, cpu, is_dram, summed = column
            value = printed * means.factor if printed is not None else None
            if is_dram and self.blind and not value:
                value = None
            if summed:
                reading.add(means, name, value, cpu)
            append(
                Counter(
                    means.metric, name, value, means.unit, where, None, time_s, how, printed,
                    means.printed_unit,
                )
            )  # fmt: skip
        self._point.add_reading(reading)

    def _names_of(self, group: int, metrics: int, cpus: int) -> list[str]:
        """From this file's header, else from that of a companion, unless companions disagree."""
        heads = [self._own] if self._own.names else self._others
        found = [names for head in heads if (names := head.names_of(group, metrics, cpus))]
        if found and all(names == found[0] for names in found):
            return found[0]
        if found:
            self.found.warn("headers of several files would fit: give each file with its own companion only")
        return [f"column {5 + at}" for at in range(metrics)]

    def _core(self, cpu: int) -> str:
        heads = [self._own] if self._own.cores else self._others
        known = {head.cores[cpu] for head in heads if cpu < len(head.cores)}
        return f"hwthread {known.pop()}" if len(known) == 1 else f"hwthread number {cpu}"

    def _watch(self, time_s: float, first: str) -> None:
        """Rows that come faster than their own measured time are of several processes."""
        measured = number(first) or 0.0
        if self.rows > 1 and time_s - self._last_s < 0.5 * measured:
            self._short_steps += 1
        self._last_s = max(self._last_s, time_s)

    def finish(self) -> None:
        if not self.rows:
            if self.headers:
                self.found.warn("a time line's header without rows: LIKWID writes them to standard error")
            return
        self.found.facts["rows"] = self.rows
        self.found.duration_s = self._last_s
        if self._unnamed:
            self.found.warn(
                "no header names the columns: give the file with LIKWID's standard output together with it"
            )
        self._point.set_time(self._last_s)
        several = self._short_steps > self.rows // 10
        if several:
            self.found.warn(
                "rows of several processes stand among each other and cannot be told apart; no sums"
            )
        if len(self._groups) > 1:
            self.found.warn("groups measured in turns: each saw only its share of the time; no sums")
        if several or len(self._groups) > 1:
            self._point = Point()
            self._point.set_time(self._last_s)
        self.found.run = self._point.kernel("(whole run)", self.found)
