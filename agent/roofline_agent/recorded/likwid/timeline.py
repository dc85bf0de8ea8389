"""The timeline of `likwid-perfctr -t`: a row every interval, all CPUs' values of one metric after another.

The columns' names are in a header that goes to standard output while the rows go to standard error. Its
spellings are those of LIKWID 4.1 to 5.5 (src/applications/likwid-perfctr.lua of each release).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..collector import Collector
from ..numbers import finite
from ..recording import Counter
from .metrics import LikwidMetric, kind, metric, numbers
from .sums import GroupSums, is_summed

# "# CORES: 0|4" until 4.3.2, "# Cores: 0|4" until 5.0, "# HWThreads: 0|4" since 5.1;
# "# HWThreads,0,4" with `-o x.csv`.
_CPUS = re.compile(r"# ?(?:CORES|Cores|HWThreads|HWTHREADS)[:,] ?([\d|,]+)")
# Since 4.3.3 the names of the four leading columns come first; before, the metrics stood alone.
_LEADING = re.compile(r"# ?GID[|,]")
_METRICS_ALONE = re.compile(r"# ?Runtime \(RDTSC\) \[s\][|,]")
_MAX_GROUPS = 1000


class TimelineRow(NamedTuple):
    """One reading of a group's metrics on all CPUs; cells: every CPU's value of the first metric, then on."""

    group: int
    metrics: int
    cpus: int
    time_s: float
    cells: list[str]


def parse_row(line: str) -> TimelineRow | None:
    """None for any line that is no row."""
    if not line[:1].isdigit():
        return None
    cells = line.replace(",", " ").split()
    if len(cells) < 5 or not all(cell.isascii() and cell.isdigit() and len(cell) < 7 for cell in cells[:3]):
        return None
    group, metrics, cpus = (int(cell) for cell in cells[:3])
    time_s = finite(cells[3])
    if time_s is None or time_s < 0 or metrics * cpus != len(cells) - 4 or not metrics:
        return None
    return TimelineRow(group, metrics, cpus, time_s, cells[4:])


def is_header(line: str) -> bool:
    return any(pattern.match(line) for pattern in (_CPUS, _LEADING, _METRICS_ALONE))


class TimelineHeader:
    """The CPUs and metrics that the header lines of one file name."""

    def __init__(self) -> None:
        self.names: list[list[str]] = []  # different headers, in the order of their groups
        self.cpus: list[str] = []

    def take(self, line: str) -> bool:
        """Take in one line; False: it is no part of a header."""
        cpus = _CPUS.match(line)
        if cpus:
            self.cpus = re.split(r"[|,]", cpus[1])
            return True
        has_leading = _LEADING.match(line) is not None
        if not has_leading and not _METRICS_ALONE.match(line):
            return False
        columns = line.lstrip("# ").strip().split("|" if "|" in line else ",")
        names = [name.strip() for name in (columns[4:] if has_leading else columns)]
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


class _Column(NamedTuple):
    """What the values that stand at one place of a row are."""

    name: str
    metric: LikwidMetric
    kind: str
    scope: str
    cpu: str
    is_dram: bool
    is_summed: bool


class LikwidTimeline:
    """Takes the lines of one file in order."""

    def __init__(self, found: Collector, companions: Sequence[str]) -> None:
        self.found = found
        self.rows = 0
        self.header_lines = 0
        self.dram_unreadable = False  # LIKWID printed that it may not read the memory controllers
        self._header = TimelineHeader()
        self._companion_headers: list[TimelineHeader] = []
        for companion in companions:
            header = TimelineHeader()
            for line in companion.split("\n"):
                header.take(line.rstrip("\r"))
            if header.names:
                self._companion_headers.append(header)
        self._columns: dict[tuple[int, int, int], list[_Column]] = {}  # by group, metrics, CPUs
        self._has_unnamed = False
        self._sums = GroupSums()
        self._groups: set[int] = set()
        self._last_s = 0.0
        self._short_intervals = 0

    def header(self, line: str) -> None:
        """Take in a comment line."""
        self._columns.clear()
        if self._header.take(line):
            self.header_lines += 1

    def line(self, line: str) -> bool:
        """Take in one line; False: it is no row."""
        row = parse_row(line)
        if row is None:
            return False
        self.rows += 1
        if len(self._groups) < _MAX_GROUPS:
            self._groups.add(row.group)

        # Rows that come faster than the time they measured are of several processes.
        measured_s = finite(row.cells[0]) or 0.0
        if self.rows > 1 and row.time_s - self._last_s < 0.5 * measured_s:
            self._short_intervals += 1
        self._last_s = max(self._last_s, row.time_s)

        columns = self._columns.get((row.group, row.metrics, row.cpus)) or self._columns_of(row)
        reading = GroupSums()
        append = self.found.counters.append
        for column, printed in zip(columns, numbers(row.cells), strict=True):
            name, means, how, scope, cpu, is_dram, in_sums = column
            value = printed * means.factor if printed is not None else None
            if is_dram and self.dram_unreadable and not value:
                value = None
            if in_sums:
                reading.add(means, name, value, cpu)
            append(
                Counter(
                    means.metric, name, value, means.unit, scope, None, row.time_s, how, printed,
                    means.printed_unit,
                )
            )  # fmt: skip
        self._sums.add_reading(reading)
        return True

    def _columns_of(self, row: TimelineRow) -> list[_Column]:
        headers = [self._header] if self._header.cpus else self._companion_headers
        scopes: list[str] = []
        for cpu in range(row.cpus):
            known = {header.cpus[cpu] for header in headers if cpu < len(header.cpus)}
            scopes.append(f"hwthread {known.pop()}" if len(known) == 1 else f"hwthread number {cpu}")
        names = self._names_of(row)
        self._has_unnamed = self._has_unnamed or not names
        columns: list[_Column] = []
        for at in range(row.metrics):
            name = names[at] if names else f"column {5 + at}"
            means = metric(name) if names else LikwidMetric(name, 1.0, "")
            is_dram = means.metric.startswith("dram_")
            for cpu, scope in enumerate(scopes):
                columns.append(
                    _Column(name, means, kind(means.unit), scope, str(cpu), is_dram, is_summed(means, name))
                )
        if len(self._columns) < _MAX_GROUPS:
            self._columns[row.group, row.metrics, row.cpus] = columns
        return columns

    def _names_of(self, row: TimelineRow) -> list[str]:
        """From this file's header, else a companion's; [] where none fits or companions disagree."""
        headers = [self._header] if self._header.names else self._companion_headers
        named = [names for header in headers if (names := header.names_of(row.group, row.metrics, row.cpus))]
        if not named:
            return []
        if any(names != named[0] for names in named):
            self.found.warn("headers of several files would fit: give each file with its own companion only")
            return []
        return named[0]

    def finish(self) -> None:
        """Make the whole run's kernel, and warn of what the rows do not allow to sum."""
        if not self.rows:
            if self.header_lines:
                self.found.warn("a time line's header without rows: LIKWID writes them to standard error")
            return
        self.found.facts["rows"] = self.rows
        self.found.duration_s = self._last_s
        if self._has_unnamed:
            self.found.warn(
                "no header names the columns: give the file with LIKWID's standard output together with it"
            )
        has_several_processes = self._short_intervals > self.rows // 10
        if has_several_processes:
            self.found.warn(
                "rows of several processes stand among each other and cannot be told apart; no sums"
            )
        if len(self._groups) > 1:
            self.found.warn("groups measured in turns: each saw only its share of the time; no sums")
        if has_several_processes or len(self._groups) > 1:
            self._sums = GroupSums()
        self._sums.set_time(self._last_s)
        self.found.run = self._sums.kernel("(whole run)", self.found)
