"""Rows of CSV tables among other lines, by the names of their header."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from ..cells import Array, Distinct
from ..collector import Collector
from ..columns import Columns, WantedColumns, columns, combined
from ..numbers import finite
from ..text import LineBlock, Text

_UNIT = re.compile(r"(.*?)\s*[\[(]([^\])]*)[\])]")


class Header(NamedTuple):
    names: tuple[str, ...]  # in lower case, without units
    units: tuple[str, ...]  # "ns" of "Start (ns)", "%" of "utilization.gpu [%]"; "" where there is none
    at: Mapping[str, int]

    def unit(self, name: str) -> str:
        return self.units[self.at[name]] if name in self.at else ""


class TableRow(NamedTuple):
    header: Header
    cells: Sequence[str]
    line: int

    def text(self, name: str) -> str:
        """ "" where there is no such column."""
        at = self.header.at.get(name)
        return self.cells[at].strip() if at is not None else ""

    def number(self, name: str) -> float | None:
        return finite(self.text(name))


class TableBlock(NamedTuple):
    """Rows that follow each other, a line each, in columns, those that were asked for."""

    header: Header
    columns: Columns
    line: int  # of the first

    def distinct(self, name: str) -> Distinct | None:
        """Its cells without blanks around them; None where there is no such column."""
        at = self.header.at.get(name)
        return None if at is None else self.column(at)

    def column(self, at: int) -> Distinct:
        """The cells without blanks around them."""
        found = self.columns.distinct(at)
        return found._replace(texts=list(map(str.strip, found.texts)))

    def numbers(self, name: str, rows: Array | None = None) -> Array | None:
        """NaN where a cell is no plain number; None where there is no such column. rows: None for all."""
        at = self.header.at.get(name)
        if at is None:
            return None
        found = self.columns.numbers(at)
        return found if rows is None else found[rows]

    def names(self, name: str) -> Distinct | None:
        """As `distinct`; None, too, where one is empty or has quotes behind a blank, which Arrow keeps."""
        found = self.distinct(name)
        is_usual = found is not None and all(text and text[0] != '"' for text in found.texts)
        return found if is_usual else None

    def each(self, names: Sequence[str], made: Callable[..., str], rows: Array | None = None) -> list[str]:
        """What is made of the cells in several columns, of each row (None: all)."""
        several = [self.distinct(name) for name in names]
        known = [one for one in several if one is not None]
        if not known:
            return [made(*("" for _ in names))] * (len(self.columns) if rows is None else len(rows))
        firsts, which = combined([one.which for one in known])
        texts = [
            made(*(one.texts[one.which[first]] if one is not None else "" for one in several))
            for first in firsts
        ]
        return [texts[one] for one in (which if rows is None else which[rows]).tolist()]

    def text(self, name: str, row: int) -> str:
        """ "" where there is no such column."""
        at = self.header.at.get(name)
        return self.columns.text(at, row).strip() if at is not None else ""

    def changes(self, names: Sequence[str], first: bool) -> Array:
        """Rows in which one of these columns is not as in the row before; first: whether the first is one."""
        return self.columns.changes([self.header.at[one] for one in names if one in self.header.at], first)

    def rows(self, first: int = 0, end: int | None = None) -> Iterator[TableRow]:
        rows = self.columns.rows(first, end, skips_blanks=True)
        yield from (TableRow(self.header, row, at) for at, row in enumerate(rows, self.line + first))


class TableReader(Protocol):
    """What takes the rows of tables, one by one or many at a time."""

    def take(self, row: TableRow) -> None: ...

    def take_block(self, block: TableBlock) -> None: ...


def read_all(
    reader: TableReader,
    text: Text,
    found: Collector,
    is_header: Callable[[Header], bool],
    wanted: Callable[[Header], WantedColumns | None],
) -> None:
    """Hand the reader every row below a header that is wanted. wanted: as of `blocks`."""
    for some in blocks(text, found, is_header, wanted):
        if isinstance(some, TableRow):
            reader.take(some)
        else:
            reader.take_block(some)


def rows(text: Text, found: Collector, is_header: Callable[[Header], bool]) -> Iterator[TableRow]:
    """Every row below a header that is wanted, until a line with another number of cells."""
    for some in blocks(text, found, is_header, lambda header: None):
        if isinstance(some, TableRow):
            yield some


def blocks(
    text: Text,
    found: Collector,
    is_header: Callable[[Header], bool],
    wanted: Callable[[Header], WantedColumns | None],
) -> Iterator[TableBlock | TableRow]:
    """Every row below a header that is wanted, many at a time where they are in columns. wanted: columns of a
    table that are needed, None for a table whose rows are read one by one."""
    header: Header | None = None
    needed: WantedColumns | None = None
    cut = 0
    for block in text.blocks():
        if isinstance(block, LineBlock) and header is not None and needed is not None:
            cells = columns(block, len(header.names), ",", needed)
            if cells is not None and not _has_header(cells, is_header):
                yield TableBlock(header, cells, block.line)
                needed = needed._replace(plain=cells.plain(needed.text))
                continue
        for line in text.each(block):
            if "," not in line:
                continue
            row = cells_of(line)
            if row is None:
                continue
            is_next = row[0][:1].isalpha() and is_header(header_of(row))  # of another table in the file
            if header is not None and len(row) == len(header.names) and not is_next:
                yield TableRow(header, row, text.line)
            elif is_next:
                header = header_of(row)
                needed = _with_first(wanted(header))
            elif header is not None:
                cut = text.line
    if cut:
        found.warn("lines with another number of columns than their header are left out", cut)


def _with_first(wanted: WantedColumns | None) -> WantedColumns | None:
    """With the first column, which shows whether a row is a header."""
    if wanted is None or 0 in (*wanted.text, *wanted.numeric):
        return wanted
    return wanted._replace(text=[0, *wanted.text])


def _has_header(rows: Columns, is_header: Callable[[Header], bool]) -> bool:
    """Whether another table begins: its header has another first cell than the rows before."""
    firsts = rows.firsts(0)
    return any(is_header(header_of(list(row))) for at in firsts for row in rows.rows(at, at + 1))


def cells_of(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line], skipinitialspace=True), [""])
    except csv.Error:
        return None


def header_of(cells: list[str]) -> Header:
    names: list[str] = []
    units: list[str] = []
    for cell in cells:
        match = _UNIT.fullmatch(cell.strip())
        if match and match[2].isdecimal():
            match = None  # the number of a channel, as in TCC_HIT[0]
        names.append((match[1] if match else cell).strip().lower())
        units.append(match[2] if match else "")
    return Header(tuple(names), tuple(units), {name: at for at, name in reversed(list(enumerate(names)))})


def headers_in(head: str) -> Iterator[Header]:
    """Every line of a file's beginning that may be a header."""
    for line in head.split("\n")[:3000]:
        if "," in line and len(line) < 100_000 and line.lstrip('" ')[:1].isalpha():
            try:
                yield header_of(next(csv.reader([line.rstrip("\r")], skipinitialspace=True), []))
            except csv.Error:
                continue


@lru_cache(maxsize=4096)
def sizes_of(*sizes: str) -> str:
    """Three sizes of a grid and three of a block in words; "" where one is empty."""
    return "grid {}, {}, {} block {}, {}, {}".format(*sizes) if all(sizes) else ""
