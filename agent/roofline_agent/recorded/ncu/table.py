"""Nsight Compute's CSV pages as launches of printed metrics: wide, long and summary pages alike.

Lines that are no row of a table, the profiled program's own output and the profiler's messages, are handed on
to whoever wants them. Nothing is converted here: cells stay text, and what is missing stays missing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, groupby, pairwise
from operator import ne
from typing import NamedTuple

from ..collector import Collector
from ..columns import quoted_columns
from ..text import LineBlock, Text
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

    @property
    def by_name(self) -> Mapping[str, list[MetricCell]]:
        return self.metrics if self.table is None else self.table.metrics(self.values)


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

    def cell(self, row: Sequence[str], name: str) -> str:
        at = self.at.get(name)
        return row[at].strip() if at is not None and at < len(row) else ""


class ColumnBlock(NamedTuple):
    """Rows that follow each other, a line each, as wide as their header, none of which is a header."""

    columns: list[list[str]]

    def rows(self, first: int = 0, end: int | None = None) -> Iterator[tuple[str, ...]]:
        return zip(*(column[first:end] for column in self.columns), strict=True)

    def part(self, first: int) -> ColumnBlock:
        return ColumnBlock([column[first:] for column in self.columns])

    def before(self, other: ColumnBlock) -> ColumnBlock:
        return ColumnBlock([a + b for a, b in zip(self.columns, other.columns, strict=True)])


class LaunchBlock(NamedTuple):
    """Launches that follow each other and share a table, in columns."""

    table: MetricTable
    values: list[list[str]]  # a column for each metric of the table
    rows: Sequence[int]  # of the block: the first of each launch
    block: ColumnBlock
    header: _Columns
    line: int  # of the block's first row

    def cells(self, name: str) -> list[str]:
        """Of each launch, by one of the names of _PRINTED."""
        at = self.header.at.get(name)
        if at is None:
            return [""] * len(self.rows)
        return list(map(str.strip, map(self.block.columns[at].__getitem__, self.rows)))

    def launch(self, at: int) -> PrintedLaunch:
        row = [column[self.rows[at]] for column in self.block.columns]
        values = tuple(column[at] for column in self.values)
        return _printed(self.header, row, {}, self.line + self.rows[at], self.table, values)


def launches(
    text: Text, found: Collector, wanted: Callable[[str], bool], others: OtherLines
) -> Iterator[PrintedLaunch | LaunchBlock]:
    """All launches in the order of the file, many at a time where they stand in columns.

    wanted: whether to hand out a metric of a wide page, by its name; asked again every now and then, as it
    may have had enough. others: gets the lines that belong to no table of kernels.
    """
    table: _LongPage | _WidePage | None = None
    for row, line in _rows(text, found, others):
        if isinstance(row, ColumnBlock):
            if table is not None:
                yield from table.add_block(row, line)
            continue
        header = _columns(row)
        if header is not None:
            if table is not None:
                yield from table.end()
            table = _LongPage(header, found) if header.is_long else _WidePage(header, found, wanted)
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


def _rows(text: Text, found: Collector, others: OtherLines) -> Iterator[tuple[list[str] | ColumnBlock, int]]:
    """Rows of tables, each with the number of its first line; an empty row: one that is cut short."""
    single = _SingleRows(text, found, others)
    for block in text.blocks():
        if isinstance(block, LineBlock) and single.header and not single.is_within_row:
            cells = quoted_columns(block.text, len(single.header))
            if cells is not None and single.header[0] not in cells[0]:
                yield ColumnBlock(cells), text.line - len(cells[0]) + 1
                continue
        for line in text.each(block):
            yield from single.add(line, text.line)
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
        self._key: tuple[str, ...] | None = None
        self._open: ColumnBlock | None = None  # rows of a launch that the last block ended in
        self._open_line = 0
        self._first: Sequence[str] = []
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
        self._least = 1 + max(columns.value, self._name, self._unit or 0, *self._keys, 0)

    def add(self, row: Sequence[str], line: int) -> Iterator[PrintedLaunch]:
        yield from self._add_open()
        yield from self._add(row, line)

    def _add(self, row: Sequence[str], line: int) -> Iterator[PrintedLaunch]:
        self._is_short = len(row) < self._least
        if not row:
            self._is_cut = True
        elif self._is_short:
            self._found.warn("row with too few columns", line)
        if not row or self._is_short:
            return
        key = tuple(row[i] for i in self._keys)
        name = row[self._name]
        # Without an id the same metric again is the only sign of the next launch.
        if key != self._key or (not self._has_id and "__" in name and name in self._metrics):
            yield from self._flush()
            self._key, self._first, self._line = key, row, line
        if name:
            cell = MetricCell(row[self._columns.value], None if self._unit is None else row[self._unit])
            self._metrics.setdefault(name, []).append(cell)

    def add_block(self, block: ColumnBlock, line: int) -> Iterator[PrintedLaunch | LaunchBlock]:
        """The same as `add` for each of the rows; launches whose rows are all in blocks are handed out
        together."""
        if self._open is not None:
            block = self._open.before(block)
            line, self._open = self._open_line, None
        keys = list(zip(*(block.columns[i] for i in self._keys), strict=True))
        begins = list(compress(range(1, len(keys)), map(ne, keys[1:], keys)))
        if keys[0] != self._key:
            begins.insert(0, 0)
        if not self._has_id or self._unit is None or not begins:
            begins = [len(keys)]
        for at, row in enumerate(block.rows(0, begins[0]), line):
            yield from self._add(row, at)
        if len(begins) > 1:
            yield from self._flush()
            yield from self._whole(block, begins, line)
        if begins[-1] < len(keys):  # the last launch may go on in the next block
            self._open, self._open_line = block.part(begins[-1]), line + begins[-1]

    def _add_open(self) -> Iterator[PrintedLaunch]:
        """The launch at the end of the last block, row by row."""
        block, self._open = self._open, None
        for at, row in enumerate(block.rows() if block is not None else (), self._open_line):
            yield from self._add(row, at)

    def _whole(
        self, block: ColumnBlock, begins: list[int], line: int
    ) -> Iterator[PrintedLaunch | LaunchBlock]:
        """Launches that begin at all places but the last, where the last of them ends."""
        names, units = tuple(block.columns[self._name]), tuple(block.columns[self._unit or 0])
        many, first, end = begins[1] - begins[0], begins[0], begins[-1]
        tables = [self._table(names[first : first + many], units[first : first + many])] * (len(begins) - 1)
        is_regular = begins == list(range(first, end + 1, many)) and all(
            column[first : end - many] == column[first + many : end] for column in (names, units)
        )
        if not is_regular:
            tables = [self._table(names[begin:end], units[begin:end]) for begin, end in pairwise(begins)]
        at = 0
        for table, group in groupby(tables):
            launches = begins[at : at + len(list(group)) + 1]
            at += len(launches) - 1
            if table is not None:
                yield self._alike(table, block, launches, line)
                continue
            for number, row in enumerate(block.rows(launches[0], launches[-1]), line + launches[0]):
                yield from self._add(row, number)
            yield from self._flush()
        self._before, self._key = list(names[begins[-2] : begins[-1]]), None

    def _table(self, names: tuple[str, ...], units: tuple[str, ...]) -> MetricTable | None:
        """None where rows have no metric, or where there are too many tables."""
        table = self._tables.get((names, units))
        if table is None and len(self._tables) < MAX_TABLES and all(names):
            table = self._tables[names, units] = MetricTable(names, units)
        return table

    def _alike(self, table: MetricTable, block: ColumnBlock, begins: list[int], line: int) -> LaunchBlock:
        cells, many = block.columns[self._columns.value][begins[0] : begins[-1]], len(table.names)
        values = [cells[at::many] for at in range(many)]
        return LaunchBlock(table, values, begins[:-1], block, self._columns, line)

    def end(self, at_end: bool = False) -> Iterator[PrintedLaunch]:
        yield from self._add_open()
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
        self._table: MetricTable | None = None  # of blocks

    def add(self, row: Sequence[str], line: int) -> Iterator[PrintedLaunch]:
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
            self._ask_again()
        metrics = {name: [MetricCell(row[i], unit)] for i, name, unit in self._wanted}
        yield _printed(self._columns, row, metrics, line)

    def add_block(self, block: ColumnBlock, line: int) -> Iterator[PrintedLaunch | LaunchBlock]:
        """The same as `add` for each of the rows, handed out together."""
        count, begin = len(block.columns[0]), int(self._at_units)
        for row in block.rows(0, begin):
            yield from self.add(row, line)
        self._ask_again()
        _, names, units = zip(*self._wanted, strict=True) if self._wanted else ((), (), ())
        if not names or None in units:
            for at, row in enumerate(block.rows(begin), line + begin):
                yield from self.add(row, at)
            return
        if self._table is None or self._table.names != names:
            self._table = MetricTable(names, units)
        if begin < count:
            values = [block.columns[i][begin:] for i, _, _ in self._wanted]
            yield LaunchBlock(self._table, values, range(begin, count), block, self._columns, line)

    def _ask_again(self) -> None:
        self._wanted = [one for one in self._wanted if self._is_wanted(one[1])]

    def end(self, at_end: bool = False) -> Iterator[PrintedLaunch]:
        return iter(())


def _printed(
    columns: _Columns,
    row: Sequence[str],
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


@lru_cache(maxsize=4096)
def problem(grid: str, block: str) -> str:
    """The sizes of a launch in words."""
    parts = (("grid", grid), ("block", block))
    return ", ".join(f"{name} {size}" for name, size in parts if size)
