"""The time line of `likwid-perfctr -t`: a row every interval, all CPUs' values of one metric after another.

The columns' names stand in a header that goes to standard output while the rows go to standard error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .collect import Collector
from .likwid_metrics import Meaning, kind, metric, number
from .likwid_sums import Point
from .records import Counter

_HEADER = re.compile(r"# ?GID[|,]")
_CORES = re.compile(r"# ?(?:CORES|Cores|HWThreads|HWTHREADS): ?([\d|,]+)")
_SPLIT = re.compile(r"[,\s]+")
_MAX_GROUPS = 1000


def is_header(line: str) -> bool:
    return bool(_HEADER.match(line) or _CORES.match(line))


def fields(line: str) -> tuple[int, int, int, float, list[str]] | None:
    """Group, metrics, CPUs, seconds and the values of a row; None for any other line."""
    if not line[:1].isdigit():
        return None
    cells = _SPLIT.split(line.strip().rstrip(","))
    if len(cells) < 5 or not all(cell.isascii() and cell.isdigit() and len(cell) < 7 for cell in cells[:3]):
        return None
    group, metrics, cpus = (int(cell) for cell in cells[:3])
    time_s = number(cells[3])
    if time_s is None or time_s < 0 or metrics * cpus != len(cells) - 4 or not metrics:
        return None
    return group, metrics, cpus, time_s, cells[4:]


class TimeLine:
    """Takes the lines of one file in order."""

    def __init__(self, found: Collector, companions: Sequence[str]) -> None:
        self.found = found
        self.rows = 0
        self.headers = 0
        self._names: list[list[str]] = []  # different headers, in the order of their groups
        self._cores: list[str] = []
        self._writers = 0  # processes that wrote a header
        self._means: dict[str, Meaning] = {}
        self._point = Point()
        self._groups: set[int] = set()
        self._last_s = 0.0
        self._short_steps = 0
        self.blind = False  # LIKWID said that it may not read the memory controllers
        self._own = False
        for head in companions:
            for line in head.split("\n"):
                self.header(line.rstrip("\r"), own=False)

    def header(self, line: str, own: bool = True) -> bool:
        cores = _CORES.match(line)
        if cores:
            self._cores = re.split(r"[|,]", cores[1])
            self._writers += 1
        elif _HEADER.match(line):
            names = [name.strip() for name in line.strip().split("|" if "|" in line else ",")][4:]
            if own and not self._own:
                self._own, self._names = True, []  # a header of its own counts more than a companion's
            if names and names not in self._names and len(self._names) < _MAX_GROUPS:
                self._names.append(names)
        else:
            return False
        self.headers += own
        return True

    def line(self, line: str) -> bool:
        """Take in one line; False: it is no row."""
        row = fields(line)
        if row is None:
            return False
        group, metrics, cpus, time_s, cells = row
        names = self._names_of(group, metrics, cpus)
        self.rows += 1
        if len(self._groups) < _MAX_GROUPS:
            self._groups.add(group)
        self._watch(time_s, cells[0])
        reading = Point()
        for at, cell in enumerate(cells):
            self._value(names[at // cpus], cell, at % cpus, time_s, reading)
        self._point.add_reading(reading)
        return True

    def _names_of(self, group: int, metrics: int, cpus: int) -> list[str]:
        fitting = [names for names in self._names if len(names) in (metrics, metrics * cpus)]
        if not fitting:
            return [f"column {5 + at}" for at in range(metrics)]
        names = fitting[(group - 1) % len(fitting)] if group > 0 else fitting[0]
        return names if len(names) == metrics else names[::cpus]

    def _value(self, name: str, cell: str, cpu: int, time_s: float, reading: Point) -> None:
        means = self._means.get(name)
        if means is None:
            means = Meaning(name, 1.0, "") if name.startswith("column ") else metric(name)
            self._means[name] = means
        core = self._cores[cpu] if cpu < len(self._cores) else ""
        printed = number(cell)
        value = printed * means.factor if printed is not None else None
        if self.blind and means.metric.startswith("dram_") and not value:
            value = None
        reading.add(means, name, value, str(cpu))
        where = f"hwthread {core}" if core else f"hwthread number {cpu}"
        self.found.counters.append(
            Counter(
                means.metric, name, value, means.unit, where, None, time_s, kind(means.unit), printed,
                means.printed_unit,
            )
        )  # fmt: skip

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
        if any(name.startswith("column ") for name in self._means):
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
