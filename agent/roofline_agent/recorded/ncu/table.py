"""Nsight Compute's CSV pages as launches of printed metrics: wide, long and summary pages alike.

Lines that are no row of a table, the profiled program's own output and the profiler's messages, are handed on
to whoever wants them. Nothing is converted here: cells stay text, and what is missing stays missing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ..collector import Collector
from ..text import Text
from .other_lines import OtherLines

MAX_JOINED = 200  # lines of one row: kernel names and rule texts may hold line ends
ASK_AGAIN = 32  # rows of a wide page
_COLUMN_UNIT = re.compile(r"^(?P<name>\S+)\s*\[(?P<unit>[^\]]*)\]$")  # "dram__bytes.sum [Mbyte]"
# A table that went through another program may have lost its quotes: a row of numbers and names.
_UNQUOTED = re.compile(r"\d*(?:\.\d*)?(?:,[^,]*){9}")
_BEGINNING = re.compile(r'"(?:\d*|ID|Process ID)","')  # of a row or a header
_WORDS = """ID, Process ID, Process Name, Host Name, Kernel Name, Kernel Time, Context, Stream, Block Size,
Grid Size, Device, CC, Section Name, Invocations, Body Item Label"""
_IDENTITY = frozenset(word.strip().lower() for word in _WORDS.split(","))


class MetricCell(NamedTuple):
    value: str
    unit: str | None  # None: the page has no units at all


class PrintedLaunch(NamedTuple):
    """The metrics of one launch, or of `count` launches of which the page prints means (summary pages)."""

    kernel: str
    metrics: Mapping[
        str, list[MetricCell]
    ]  # in the order of the file; details pages print a label several times
    line: int
    device: str = ""
    cc: str = ""
    grid: str = ""
    block: str = ""
    count: int = 1  # type: ignore[assignment]  # the field's word, though tuples have a method of that name


class _Columns(NamedTuple):
    """Where things stand in the rows below one header."""

    header: list[str]
    at: Mapping[str, int]  # lower-case name -> index
    metrics: list[tuple[int, str, str | None]]  # of a wide page: index, name, unit out of the header

    @property
    def is_long(self) -> bool:
        return "metric name" in self.at

    @property
    def value(self) -> int:
        return self.at.get("metric value", self.at.get("average", -1))

    def cell(self, row: list[str], name: str) -> str:
        at = self.at.get(name)
        return row[at].strip() if at is not None and at < len(row) else ""


def launches(
    text: Text, found: Collector, wanted: Callable[[str], bool], others: OtherLines
) -> Iterator[PrintedLaunch]:
    """All launches in the order of the file.

    wanted: whether to hand out a metric of a wide page, by its name; asked again every now and then, as it
    may have had enough. others: gets the lines that belong to no table of kernels.
    """
    table: _LongPage | _WidePage | None = None
    for row, line in _rows(text, found, others):
        columns = _columns(row)
        if columns is not None:
            if table is not None:
                yield from table.end()
            table = _LongPage(columns, found) if columns.is_long else _WidePage(columns, found, wanted)
        elif table is None or (len(row) == 2 and not row[0].isdigit()):
            others.row(row)
        else:
            yield from table.add(row, line)
    if table is not None:
        yield from table.end(at_end=True)


def is_header(line: str) -> bool:
    """Whether a line, or its beginning, is the header of a table of kernels."""
    if "Kernel Name" not in line and "Metric Name" not in line:
        return False
    try:
        return _columns(next(csv.reader([line]), [])) is not None
    except csv.Error:
        return False


def _columns(row: list[str]) -> _Columns | None:
    """The columns, if this row is a header."""
    if "Kernel Name" not in row and "Metric Name" not in row:  # asked of every row
        return None
    names = [name.strip().lower() for name in row]
    is_long = "metric name" in names and not {"metric value", "average"}.isdisjoint(names)
    is_wide = "kernel name" in names and ("id" in names or any("__" in name for name in names))
    if not is_long and not is_wide:  # a pivot of such a table has no kernels and no units
        return None
    metrics: list[tuple[int, str, str | None]] = []
    for at, name in enumerate(names):
        if name not in _IDENTITY:
            match = _COLUMN_UNIT.match(row[at].strip())
            metrics.append((at, match["name"], match["unit"]) if match else (at, row[at].strip(), None))
    return _Columns(row, {name: i for i, name in reversed(list(enumerate(names)))}, metrics)


def _rows(text: Text, found: Collector, others: OtherLines) -> Iterator[tuple[list[str], int]]:
    """Rows of tables, each with the number of its first line; an empty row: one that is cut short."""
    # One loop over the lines: where a row ends depends on the lines before and on the header.
    pending: list[str] = []
    first = commas = 0  # of an unquoted header: its rows have no fewer
    for line in text.lines():
        if pending and (len(pending) == MAX_JOINED or line.startswith("==") or _BEGINNING.match(line)):
            found.warn("row cut short", first)
            yield [], first
            pending = []
        if not pending:
            first = text.line
            if line[:1] != '"' and not _UNQUOTED.match(line):
                if is_header(line):
                    commas = line.count(",")
                elif not commas or line.count(",") < commas:
                    others.line(line, first)
                    continue
        pending.append(line)
        if line.count('"') % 2 == (len(pending) == 1):
            continue  # the row's last quote is still to come
        try:
            row = next(csv.reader([one + "\n" for one in pending]), [])
        except csv.Error as error:
            found.warn(f"not a row of a CSV table ({error})", first)
            row = []
        if row and pending[0].startswith('"') and pending[-1].endswith(","):
            row.pop()  # the profiler quotes empty cells: after the last comma there is none
        yield row, first
        pending = []
    if pending:
        found.warn("row cut short: the file ends in it", first)
        yield [], first


class _LongPage:
    """A row is a metric; rows of one launch stand together."""

    def __init__(self, columns: _Columns, found: Collector) -> None:
        self._columns = columns
        self._found = found
        self._key: list[str] | None = None
        self._first: list[str] = []
        self._line = 0
        self._metrics: dict[str, list[MetricCell]] = {}
        self._before: list[str] = []
        self._is_cut = self._is_short = False
        self._name = columns.at["metric name"]
        self._unit = columns.at.get("metric unit")
        self._keys = [
            i for i in map(columns.at.get, ("id", "process id", "kernel name", "device")) if i is not None
        ]
        self._has_id = "id" in columns.at
        if not self._has_id:
            extra = ("grid size", "block size", "context", "stream")
            self._keys += [i for i in map(columns.at.get, extra) if i is not None]

        self._least = 1 + max(columns.value, self._name, self._unit or 0, *self._keys, 0)

    def add(self, row: list[str], line: int) -> Iterator[PrintedLaunch]:
        self._is_short = len(row) < self._least
        if not row:
            self._is_cut = True
        elif self._is_short:
            self._found.warn("row with too few columns", line)
        if not row or self._is_short:
            return
        key = [row[i] for i in self._keys]
        name = row[self._name]
        # Without an id the same metric again is the only sign of the next launch.
        if key != self._key or (not self._has_id and "__" in name and name in self._metrics):
            yield from self._flush()
            self._key, self._first, self._line = key, row, line
        if name:
            cell = MetricCell(row[self._columns.value], None if self._unit is None else row[self._unit])
            self._metrics.setdefault(name, []).append(cell)

    def end(self, at_end: bool = False) -> Iterator[PrintedLaunch]:
        names = list(self._metrics)
        fewer = 0 < len(names) < len(self._before) and self._before[: len(names)] == names
        self._is_cut = self._is_cut or (at_end and (self._is_short or fewer))
        yield from self._flush()

    def _flush(self) -> Iterator[PrintedLaunch]:
        if self._is_cut and self._key is not None:
            self._found.warn("a launch of which not every row is there; it is left out", self._line)
        elif self._metrics:
            yield _printed(self._columns, self._first, self._metrics, self._line)
        self._before = list(self._metrics)
        self._metrics = {}
        self._is_cut = False


class _WidePage:
    """A row is a launch; the first row below the header holds the units."""

    def __init__(self, columns: _Columns, found: Collector, wanted: Callable[[str], bool]) -> None:
        self._columns = columns
        self._found = found
        self._is_wanted = wanted
        self._wanted = [one for one in columns.metrics if wanted(one[1])]
        self._at_units = True
        self._rows = 0

    def add(self, row: list[str], line: int) -> Iterator[PrintedLaunch]:
        if len(row) != len(self._columns.header):
            if row:
                self._found.warn("row with another number of columns than its header; it is left out", line)
            return
        if self._at_units:
            self._at_units = False
            if not self._columns.cell(row, "id") and not self._columns.cell(row, "kernel name"):
                self._wanted = [(i, name, unit or row[i]) for i, name, unit in self._wanted]
                return
            self._found.warn("no row of units below the header", line)
        self._rows += 1
        if self._rows % ASK_AGAIN == 0:
            self._wanted = [one for one in self._wanted if self._is_wanted(one[1])]
        metrics = {name: [MetricCell(row[i], unit)] for i, name, unit in self._wanted}
        yield _printed(self._columns, row, metrics, line)

    def end(self, at_end: bool = False) -> Iterator[PrintedLaunch]:
        return iter(())


def _printed(
    columns: _Columns, row: list[str], metrics: dict[str, list[MetricCell]], line: int
) -> PrintedLaunch:
    invocations = columns.cell(row, "invocations").replace(",", "")
    return PrintedLaunch(
        columns.cell(row, "kernel name"),
        metrics,
        line,
        columns.cell(row, "device"),
        columns.cell(row, "cc"),
        columns.cell(row, "grid size"),
        columns.cell(row, "block size"),
        int(invocations) if invocations.isascii() and invocations.isdigit() and len(invocations) < 15 else 1,
    )
