"""Rows of CSV tables among other lines, by the names of their header."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..collector import Collector
from ..columns import columns, numbers
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
        return number(self.text(name))


class TableBlock(NamedTuple):
    """Rows that follow each other, a line each, in columns."""

    header: Header
    columns: list[list[str]]
    line: int  # of the first

    def texts(self, name: str) -> list[str]:
        """Empty ones where there is no such column."""
        at = self.header.at.get(name)
        if at is None:
            return [""] * len(self.columns[0])
        return list(map(str.strip, self.columns[at]))

    def numbers(self, name: str) -> list[float] | None:
        """None where one of the cells is no plain number."""
        return numbers(self.texts(name))

    def row(self, at: int) -> TableRow:
        return TableRow(self.header, [column[at] for column in self.columns], self.line + at)

    def rows(self) -> Iterator[TableRow]:
        for at, cells in enumerate(zip(*self.columns, strict=True), self.line):
            yield TableRow(self.header, cells, at)


def rows(text: Text, found: Collector, is_header: Callable[[Header], bool]) -> Iterator[TableRow]:
    """Every row below a header that is wanted, until a line with another number of cells."""
    for some in blocks(text, found, is_header):
        yield from [some] if isinstance(some, TableRow) else some.rows()


def blocks(
    text: Text, found: Collector, is_header: Callable[[Header], bool]
) -> Iterator[TableBlock | TableRow]:
    """The same rows, many at a time where they stand in columns."""
    header: Header | None = None
    cut = 0
    for block in text.blocks():
        cells = _columns(block, header)
        if cells is not None and header is not None:
            yield TableBlock(header, cells, text.line - len(cells[0]) + 1)
            continue
        for line in text.each(block):
            if "," not in line:
                continue
            row = _cells(line)
            if row is None:
                continue
            is_next = row[0][:1].isalpha() and is_header(header_of(row))  # of another table in the file
            if header is not None and len(row) == len(header.names) and not is_next:
                yield TableRow(header, row, text.line)
            elif is_next:
                header = header_of(row)
            elif header is not None:
                cut = text.line
    if cut:
        found.warn("lines with another number of columns than their header are left out", cut)


def _columns(block: LineBlock | str, header: Header | None) -> list[list[str]] | None:
    """None where a line is no row of this table, or may be the header of another."""
    if header is None or isinstance(block, str):
        return None
    cells = columns(block.text, len(header.names), ",")
    return None if cells is None or any(map(str.isalpha, {cell[:1] for cell in cells[0]})) else cells


def _cells(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line], skipinitialspace=True), [""])
    except csv.Error:
        return None


def header_of(cells: list[str]) -> Header:
    names: list[str] = []
    units: list[str] = []
    for cell in cells:
        match = _UNIT.fullmatch(cell.strip())
        names.append((match[1] if match else cell).strip().lower())
        units.append(match[2] if match else "")
    return Header(tuple(names), tuple(units), {name: at for at, name in reversed(list(enumerate(names)))})


def headers_in(head: str) -> Iterator[Header]:
    """Of every line of a file's beginning that may be one."""
    for line in head.split("\n")[:3000]:
        if "," in line and len(line) < 100_000:
            try:
                yield header_of(next(csv.reader([line.rstrip("\r")], skipinitialspace=True), []))
            except csv.Error:
                continue


def number(text: str) -> float | None:
    """None for anything that is no finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None
