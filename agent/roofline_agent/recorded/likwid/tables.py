"""The tables of likwid-perfctr and likwid-mpirun: drawn with bars, or as CSV (`-O`, `-o x.csv`).

A row has one value for each hardware thread. The tables of sums (STAT) repeat the same and are left out,
unless a file has nothing else.
"""

from __future__ import annotations

import re

from ..collect import Collector
from ..records import Counter
from .metrics import Meaning, event, kind, metric, number
from .sums import Point

_HEADS = ("Event", "Metric", "Region Info")
_STAT = ("Sum", "Min", "Max", "Avg")
_REGION_GROUP = re.compile(r"Region (.+), Group (\d+)(?:: ?(\S*))?\s*$")
_GROUP_REGION = re.compile(r"Group (\d+)(?:[: ]+(\S+?))?:? Region (.+?)\s*$")
_GROUP = re.compile(r"Group:? ?(\d+)(?:: ?(\S*))?\s*$")
_REGION = re.compile(r"Region:\s*(\S.*?)\s*$")
_CSV = re.compile(r"TABLE,(?:Region (.+?),)?Group (\d+) (?:Raw|Metric)(?: STAT| Stat)?(?:,([^,]*))?")
_THREAD = re.compile(r"(?:HWThread|Core|core|hwthread) (\d+)")
_GPU = re.compile(r"GPU (\d+)")
_RANK = re.compile(r"(.+):(\d+):(\d+)")
_NEEDS_CLOCK = ("s", "Hz", "byte/s", "FLOP/s", "1/s", "W")
ALL = "all hwthreads"
MAX_POINTS = 10_000


def is_heading(line: str) -> bool:
    """Whether the line names a region or a group, in one of the ways of LIKWID's versions."""
    return bool(_CSV.match(line) or _REGION_GROUP.match(line) or _GROUP_REGION.match(line))


class Tables:
    """Takes the lines of one file in order."""

    def __init__(self, found: Collector) -> None:
        self.found = found
        self.rows = 0
        self.points: list[Point] = [Point()]
        self._columns: list[str] = []
        self._kind = ""
        self._stat = False
        self._first = 1  # where the values of a row begin
        self.blind = False  # LIKWID said that it may not read the memory controllers
        self.clockless = False  # it said that the CPU has 0 Hz, and divides by that

    def line(self, line: str) -> bool:
        """Take in one line; False: it is no part of a table."""
        if self._heading(line):
            return True
        cells = _cells(line)
        if not cells:
            self._kind = self._kind if line.startswith(("+", "|")) else ""
            return False
        if cells[0] in _HEADS:
            self._head(cells)
            return True
        if not self._kind or not _are_values(cells[self._first :]):
            self._kind = ""
            return False
        self._row(cells)
        return True

    def _heading(self, line: str) -> bool:
        for pattern, region, group, name in (
            (_CSV, 1, 2, 3), (_REGION_GROUP, 1, 2, 3), (_GROUP_REGION, 3, 1, 2), (_GROUP, 0, 1, 2),
        ):  # fmt: skip
            match = pattern.match(line)
            if match:
                self._begin(match[region] if region else None, match[group], match[name] or "")
                return True
        match = _REGION.match(line)
        if match:
            self._begin(match[1], "", "")
        return bool(match)

    def _begin(self, region: str | None, group: str, name: str) -> None:
        """A region, a group of counters, or both begin. The four tables of a group repeat its heading."""
        self._kind = ""
        now = self.points[-1]
        region = now.region if region is None else region
        title = f"{group} {name}".strip()
        known = next((p for p in reversed(self.points) if (p.region, p.group) == (region, title)), None)
        if known is not None:
            self.points.remove(known)
            self.points.append(known)
        elif not now.rows:
            now.region, now.group = region, title
        else:
            self._new(region, title)

    def _new(self, region: str, group: str) -> None:
        if len(self.points) < MAX_POINTS:
            self.points.append(Point(region, group))

    def _head(self, cells: list[str]) -> None:
        self._kind = cells[0]
        self._first = 2 if cells[1:2] == ["Counter"] else 1
        self._columns = [column for column in cells[self._first :] if column]
        self._stat = bool(self._columns) and self._columns[0] in _STAT

    def _row(self, cells: list[str]) -> None:
        name, values = cells[0], cells[self._first :]
        if self._kind == "Region Info":
            self._info(name, values)
            return
        if self._stat:
            self._sums(re.sub(r" STAT$", "", name), values)
            return
        means = event(name) if self._kind == "Event" else metric(name)
        for column, cell in zip(self._columns, values, strict=False):
            self._value(name, means, column, cell)

    def _info(self, name: str, values: list[str]) -> None:
        if name == "call count":
            counts = [int(n) for n in map(number, values) if n is not None and 0 <= n < 1e15]
            self.points[-1].calls = max([self.points[-1].calls, *counts])
            return
        means = metric(name)
        for column, cell in zip(self._columns, values, strict=False):
            value = number(cell)
            self.points[-1].add(means, name, value * means.factor if value is not None else None, column)

    def _sums(self, name: str, values: list[str]) -> None:
        """A row of sums; the longest time speaks for all threads."""
        if any(row[:2] == (self._kind, name) for row in self.points[-1].rows if row[2] != ALL):
            return
        means = event(name) if self._kind == "Event" else metric(name)
        which = "Max" if means.unit in ("s", "Hz") else "Sum"
        if (
            means.unit not in ("s", "Hz", "byte", "byte/s", "FLOP", "FLOP/s", "J", "W")
            and self._kind != "Event"
        ):
            return
        if which in self._columns and self._columns.index(which) < len(values):
            self._value(name, means, ALL, values[self._columns.index(which)])

    def _value(self, name: str, means: Meaning, column: str, cell: str) -> None:
        if name == "Region calls":
            calls = number(cell) or 0.0
            self.points[-1].calls = max(self.points[-1].calls, int(min(calls, 1e15)))
        key = (self._kind, name, column)
        if key in self.points[-1].rows:  # another run, or another process, printed the same table
            self._new(self.points[-1].region, self.points[-1].group)
        point = self.points[-1]
        point.rows.add(key)
        self.rows += 1
        printed = number(cell)
        value = printed * means.factor if printed is not None else None
        if not value and (
            (self.blind and means.metric.startswith("dram_"))
            or (self.clockless and means.unit in _NEEDS_CLOCK)
        ):
            value = None
        point.add(means, name, value, column)
        where = ", ".join(
            part for part in (f"region {point.region}" * bool(point.region), _scope(column)) if part
        )
        # Counts and amounts are of the whole run; a ratio, a rate or a clock is a level.
        whole = "total" if self._kind == "Event" or kind(means.unit) == "delta" else "gauge"
        self.found.counters.append(
            Counter(
                means.metric, name, value, means.unit, where, None, None, whole, printed, means.printed_unit
            )
        )

    def finish(self) -> None:
        points = [point for point in self.points if point.rows]
        for point in points:
            if point.region or len(points) > 1:
                name = point.region or f"group {point.group}"
                made = point.kernel(name, self.found)
                if made is not None:
                    self.found.kernel(made)
        if len(points) == 1:
            self.found.run = points[0].kernel("(whole run)", self.found)
        elif points:
            self.found.warn(
                f"{len(points)} regions or groups: each is a kernel of its own; groups measured in turns "
                f"are not put together"
            )


def _cells(line: str) -> list[str]:
    stripped = line.strip()
    if stripped.startswith("|"):
        cells = [cell.strip() for cell in stripped.strip("|").split("|")]
        return [] if set(cells[0]) <= {"-", ":"} else cells
    if "," in stripped and not stripped.startswith(("TABLE,", "STRUCT,")):
        return [cell.strip() for cell in stripped.split(",")]
    return []


def _are_values(cells: list[str]) -> bool:
    return any(cells) and all(cell in ("", "-", "nan", "-nan") or number(cell) is not None for cell in cells)


def _scope(column: str) -> str:
    thread = _THREAD.fullmatch(column)
    if thread:
        return f"hwthread {thread[1]}"
    gpu = _GPU.fullmatch(column)
    if gpu:
        return f"gpu {gpu[1]}"
    rank = _RANK.fullmatch(column)
    return f"host {rank[1]}, rank {rank[2]}, hwthread {rank[3]}" if rank else column
