"""Nsight Compute's CSV pages as launches of printed metrics: wide, long and summary pages alike.

Lines that are no row of a table, the profiled program's own output and the profiler's messages, are handed on
to whoever wants them. Nothing is converted here: cells stay text, and what is missing stays missing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from ..collector import Collector
from ..text import Text
from .other_lines import OtherLines

MAX_TABLES = 1000  # different ones of a file that are kept
MAX_JOINED = 200  # lines of one row: kernel names and rule texts may hold line ends
ASK_AGAIN = 32  # rows of a wide page
_COLUMN_UNIT = re.compile(r"^(?P<name>\S+)\s*\[(?P<unit>[^\]]*)\]$")  # "dram__bytes.sum [Mbyte]"
# A table that went through another program may have lost its quotes: a row of numbers and names.
_UNQUOTED = re.compile(r"\d*(?:\.\d*)?(?:,[^,]*){9}")
_BEGINNING = re.compile(r'"(?:\d*|ID|Process ID)","')  # of a row or a header
_WORDS = """ID, Process ID, Process Name, Host Name, Kernel Name, Kernel Time, Context, Stream, Block Size,
Grid Size, Device, CC, Section Name, Invocations, Body Item Label"""
_PRINTED = ("kernel name", "device", "cc", "grid size", "block size", "invocations")
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
    table: MetricTable | None = None  # instead of `metrics`, with
    values: tuple[str, ...] = ()  # the cells of its rows


class MetricTable:
    """The names and units of a launch's rows, which most launches of a file share; whoever reads them
    compiles them once, into `reading`."""

    def __init__(self, names: tuple[str, ...], units: tuple[str, ...]) -> None:
        self.names = names
        self.units = units
        self.reading: object = None

    def metrics(self, values: tuple[str, ...]) -> dict[str, list[MetricCell]]:
        """As pages that are read row by row have them."""
        found: dict[str, list[MetricCell]] = {}
        for name, unit, value in zip(self.names, self.units, values, strict=True):
            found.setdefault(name, []).append(MetricCell(value, unit))
        return found


class RowBlock(NamedTuple):
    """Rows that follow each other, a line each, as wide as their header, none of which is a header."""

    rows: list[list[str]]


class _Columns(NamedTuple):
    """Where things stand in the rows below one header."""

    header: list[str]
    at: Mapping[str, int]  # lower-case name -> index
    metrics: list[tuple[int, str, str | None]]  # of a wide page: index, name, unit out of the header
    identity: tuple[int, ...] = ()  # where the names of _PRINTED stand, -1 nowhere

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
        if isinstance(row, RowBlock):
            if isinstance(table, _LongPage) and table.takes_blocks:
                yield from table.add_block(row.rows, line)
            elif table is not None:
                for at, one in enumerate(row.rows):
                    yield from table.add(one, line + at)
            continue
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
    for i, name in enumerate(names):
        if name not in _IDENTITY:
            match = _COLUMN_UNIT.match(row[i].strip())
            metrics.append((i, match["name"], match["unit"]) if match else (i, row[i].strip(), None))
    at = {name: i for i, name in reversed(list(enumerate(names)))}
    return _Columns(row, at, metrics, tuple(at.get(name, -1) for name in _PRINTED))


def _block(lines: list[str], header: list[str]) -> list[list[str]] | None:
    """The rows of lines of which each is one, and no other thing; None where that is not sure."""
    if not header or not all(line[:1] == '"' and line[-1:] == '"' for line in lines):
        return None
    if lines[-1].count('"') % 2:
        return None  # its last cell is open; in another line that would join it with the next
    try:
        rows = list(csv.reader(lines))
    except csv.Error:
        return None
    if len(rows) != len(lines) or set(map(len, rows)) != {len(header)}:
        return None
    first = header[0]
    return None if any(row[0] == first for row in rows) else rows


def _rows(
    text: Text, found: Collector, others: OtherLines
) -> Iterator[tuple[list[str], int] | tuple[RowBlock, int]]:
    """Rows of tables, each with the number of its first line; an empty row: one that is cut short."""
    single = _SingleRows(text, found, others)
    for block in text.blocks():
        lines = [block] if isinstance(block, str) else block
        first = text.line - len(lines) + 1
        rows = None if single.is_within_row else _block(lines, single.header)
        if rows is not None:
            yield RowBlock(rows), first
            continue
        for number, line in enumerate(lines, first):
            yield from single.add(line, number)
    yield from single.end()


class _SingleRows:
    """Rows out of lines that may be anything: where a row ends depends on the lines before and the header."""

    def __init__(self, text: Text, found: Collector, others: OtherLines) -> None:
        self.header: list[str] = []  # of the table that the last rows were of
        self._text = text
        self._found = found
        self._others = others
        self._pending: list[str] = []
        self._first = self._commas = 0  # commas of an unquoted header: its rows have no fewer

    @property
    def is_within_row(self) -> bool:
        return bool(self._pending)

    def add(self, line: str, number: int) -> Iterator[tuple[list[str], int]]:
        pending = self._pending
        if pending and (len(pending) == MAX_JOINED or line.startswith("==") or _BEGINNING.match(line)):
            self._found.warn("row cut short", self._first)
            yield [], self._first
            pending.clear()
        if not pending:
            self._first = number
            if line[:1] != '"' and not _UNQUOTED.match(line):
                if is_header(line):
                    self._commas = line.count(",")
                elif not self._commas or line.count(",") < self._commas:
                    self._others.line(line, number)
                    return
        pending.append(line)
        if line.count('"') % 2 == (len(pending) == 1):
            return  # the row's last quote is still to come
        yield self._row(), self._first
        pending.clear()

    def _row(self) -> list[str]:
        pending = self._pending
        try:
            row = next(csv.reader([one + "\n" for one in pending]), [])
        except csv.Error as error:
            self._found.warn(f"not a row of a CSV table ({error})", self._first)
            row = []
        if row and pending[0].startswith('"') and pending[-1].endswith(","):
            row.pop()  # the profiler quotes empty cells: after the last comma there is none
        if "Kernel Name" in row or "Metric Name" in row:
            self.header = row
        return row

    def end(self) -> Iterator[tuple[list[str], int]]:
        if self._pending:
            self._found.warn("row cut short: the file ends in it", self._first)
            yield [], self._first


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
        self._tables: dict[tuple[tuple[str, ...], tuple[str, ...]], MetricTable] = {}
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

        self._cells = itemgetter(self._name, self._unit or 0, columns.value)
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

    @property
    def takes_blocks(self) -> bool:
        return self._has_id and self._unit is not None

    def add_block(self, rows: list[list[str]], line: int) -> Iterator[PrintedLaunch]:
        """The same as `add` for each of the rows; launches that begin and end in the block have a table."""
        groups = [list(group) for _, group in groupby(rows, itemgetter(*self._keys))]
        begins_here = [rows[0][i] for i in self._keys] != self._key
        at = line
        for number, group in enumerate(groups):
            if (number == 0 and not begins_here) or number == len(groups) - 1:
                for one in group:
                    yield from self.add(one, line)
            else:
                yield from self._flush()
                yield from self._whole(group, at)
            at += len(group)

    def _whole(self, group: list[list[str]], line: int) -> Iterator[PrintedLaunch]:
        names, units, values = zip(*map(self._cells, group), strict=True)
        self._before, self._key = list(names), None
        if all(names):
            one = group[0]
            key = (names, units)
            table = self._tables.get(key)
            if table is None and len(self._tables) < MAX_TABLES:
                table = self._tables[key] = MetricTable(names, units)
            if table is not None:
                yield _printed(self._columns, one, {}, line, table, values)
                return
        for one in group:
            yield from self.add(one, line)
        yield from self._flush()

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
        self._before = list(self._metrics) or self._before
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
    columns: _Columns,
    row: list[str],
    metrics: dict[str, list[MetricCell]],
    line: int,
    table: MetricTable | None = None,
    values: tuple[str, ...] = (),
) -> PrintedLaunch:
    cells = [row[at].strip() if 0 <= at < len(row) else "" for at in columns.identity]
    kernel, device, cc, grid, block, times = cells
    count = times.replace(",", "") if times else ""
    is_count = count.isascii() and count.isdigit() and len(count) < 15
    many = int(count) if is_count else 1
    return PrintedLaunch(kernel, metrics, line, device, cc, grid, block, many, table, values)
