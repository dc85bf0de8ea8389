"""The tables of likwid-perfctr and likwid-mpirun: drawn with bars, or as CSV (`-O`, `-o x.csv`).

A row has one value for each hardware thread. The tables of sums (STAT) repeat the same and are left out,
unless a file has nothing else.
"""

from __future__ import annotations

import re

from ..collector import Collector
from ..numbers import finite
from ..recording import Counter
from .metrics import LikwidMetric, event, kind, metric
from .sums import GroupSums

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
_SUMMABLE = ("s", "Hz", "byte", "byte/s", "FLOP", "FLOP/s", "J", "W")
_NEEDS_CLOCK = ("s", "Hz", "byte/s", "FLOP/s", "1/s", "W")
ALL = "all hwthreads"
MAX_GROUPS = 10_000


def is_heading(line: str) -> bool:
    """Whether the line names a region or a group, in one of the ways of LIKWID's versions."""
    return bool(_CSV.match(line) or _REGION_GROUP.match(line) or _GROUP_REGION.match(line))


class LikwidTables:
    """Takes the lines of one file in order."""

    def __init__(self, found: Collector) -> None:
        self.found = found
        self.rows = 0
        self.groups: list[GroupSums] = [GroupSums()]  # the last one is being read
        self._columns: list[str] = []
        self._kind = ""
        self._is_stat = False
        self._first = 1  # where the values of a row begin
        self.dram_unreadable = False  # LIKWID printed that it may not read the memory controllers
        self.clockless = False  # it printed that the CPU has 0 Hz, and divides by that

    def line(self, line: str) -> bool:
        """Take in one line; False: it is no part of a table."""
        # One guard for each kind of line: heading, rule or text, head of the columns, row.
        if self._heading(line):
            return True
        cells = _cells(line)
        if not cells:
            self._kind = self._kind if line.startswith(("+", "|")) else ""
            return False
        if cells[0] in _HEADS:
            self._kind = cells[0]
            self._first = 2 if cells[1:2] == ["Counter"] else 1
            self._columns = [column for column in cells[self._first :] if column]
            self._is_stat = bool(self._columns) and self._columns[0] in _STAT
            return True
        values = cells[self._first :]
        are_values = all(cell in ("", "-", "nan", "-nan") or finite(cell) is not None for cell in values)
        if not self._kind or not any(values) or not are_values:
            self._kind = ""
            return False
        self._row(cells[0], values)
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
        now = self.groups[-1]
        region = now.region if region is None else region
        title = f"{group} {name}".strip()
        known = next((g for g in reversed(self.groups) if (g.region, g.group) == (region, title)), None)
        if known is not None:
            self.groups.remove(known)
            self.groups.append(known)
        elif not now.rows:
            now.region, now.group = region, title
        else:
            self._new(region, title)

    def _new(self, region: str, group: str) -> None:
        if len(self.groups) < MAX_GROUPS:
            self.groups.append(GroupSums(region, group))

    def _row(self, name: str, values: list[str]) -> None:
        if self._kind == "Region Info" and name == "call count":
            counts = [int(n) for n in map(finite, values) if n is not None and 0 <= n < 1e15]
            self.groups[-1].calls = max([self.groups[-1].calls, *counts])
        elif self._kind == "Region Info":
            means = metric(name)
            for column, cell in zip(self._columns, values, strict=False):
                value = finite(cell)
                self.groups[-1].add(means, name, value * means.factor if value is not None else None, column)
        elif self._is_stat:
            self._stat_row(re.sub(r" STAT$", "", name), values)
        else:
            means = event(name) if self._kind == "Event" else metric(name)
            for column, cell in zip(self._columns, values, strict=False):
                self._value(name, means, column, cell)

    def _stat_row(self, name: str, values: list[str]) -> None:
        """A row of sums; of times and clocks the longest stands for all threads."""
        if any(row[:2] == (self._kind, name) for row in self.groups[-1].rows if row[2] != ALL):
            return
        means = event(name) if self._kind == "Event" else metric(name)
        if self._kind != "Event" and means.unit not in _SUMMABLE:
            return
        which = "Max" if means.unit in ("s", "Hz") else "Sum"
        if which in self._columns and self._columns.index(which) < len(values):
            self._value(name, means, ALL, values[self._columns.index(which)])

    def _value(self, name: str, means: LikwidMetric, column: str, cell: str) -> None:
        if name == "Region calls":
            calls = finite(cell) or 0.0
            self.groups[-1].calls = max(self.groups[-1].calls, int(min(calls, 1e15)))
        key = (self._kind, name, column)
        if key in self.groups[-1].rows:  # another run, or another process, printed the same table
            self._new(self.groups[-1].region, self.groups[-1].group)
        group = self.groups[-1]
        group.rows.add(key)
        self.rows += 1
        printed = finite(cell)
        value = printed * means.factor if printed is not None else None
        if not value and (
            (self.dram_unreadable and means.metric.startswith("dram_"))
            or (self.clockless and means.unit in _NEEDS_CLOCK)
        ):
            value = None
        group.add(means, name, value, column)
        scope = _scope(column)
        if group.region:
            scope = ", ".join(filter(None, (f"region {group.region}", scope)))
        # Counts and amounts are of the whole run; a ratio, a rate or a clock is a level.
        whole = "total" if self._kind == "Event" or kind(means.unit) == "delta" else "gauge"
        self.found.counters.append(
            Counter(
                means.metric, name, value, means.unit, scope, None, None, whole, printed, means.printed_unit
            )
        )

    def finish(self) -> None:
        """A kernel for each region or group, or the whole run where there is only one."""
        groups = [group for group in self.groups if group.rows]
        for group in groups:
            if group.region or len(groups) > 1:
                made = group.kernel(group.region or f"group {group.group}", self.found)
                if made is not None:
                    self.found.kernel(made)
        if len(groups) == 1:
            self.found.run = groups[0].kernel("(whole run)", self.found)
        elif groups:
            self.found.warn(
                f"{len(groups)} regions or groups: each is a kernel of its own; groups measured in turns "
                f"are not put together"
            )


def _cells(line: str) -> list[str]:
    """[] for a line that is no row of a drawn or CSV table."""
    stripped = line.strip()
    if stripped.startswith("|"):
        cells = [cell.strip() for cell in stripped.strip("|").split("|")]
        return [] if set(cells[0]) <= {"-", ":"} else cells
    if "," in stripped and not stripped.startswith(("TABLE,", "STRUCT,")):
        return [cell.strip() for cell in stripped.split(",")]
    return []


def _scope(column: str) -> str:
    """ "hwthread 3", "gpu 0", "host n1, rank 2, hwthread 3"; any other column is its own scope."""
    thread = _THREAD.fullmatch(column)
    if thread:
        return f"hwthread {thread[1]}"
    gpu = _GPU.fullmatch(column)
    if gpu:
        return f"gpu {gpu[1]}"
    rank = _RANK.fullmatch(column)
    return f"host {rank[1]}, rank {rank[2]}, hwthread {rank[3]}" if rank else column
