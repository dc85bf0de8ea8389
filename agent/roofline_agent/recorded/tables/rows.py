"""Rows of CSV tables among other lines, by the names of their header."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ..collector import Collector
from ..text import Text

_UNIT = re.compile(r"(.*?)\s*[\[(]([^\])]*)[\])]")


class Header(NamedTuple):
    names: tuple[str, ...]  # in lower case, without units
    units: tuple[str, ...]  # "ns" of "Start (ns)", "%" of "utilization.gpu [%]"; "" where there is none
    at: Mapping[str, int]

    def unit(self, name: str) -> str:
        return self.units[self.at[name]] if name in self.at else ""


class TableRow(NamedTuple):
    header: Header
    cells: list[str]
    line: int

    def text(self, name: str) -> str:
        """ "" where there is no such column."""
        at = self.header.at.get(name)
        return self.cells[at].strip() if at is not None else ""

    def number(self, name: str) -> float | None:
        return number(self.text(name))


def rows(text: Text, found: Collector, is_header: Callable[[Header], bool]) -> Iterator[TableRow]:
    """Every row below a header that is wanted, until a line with another number of cells."""
    header: Header | None = None
    cut = 0
    for line in text.lines():
        if "," not in line:
            continue
        try:
            cells = next(csv.reader([line], skipinitialspace=True), [""])
        except csv.Error:
            continue
        is_next = cells[0][:1].isalpha() and is_header(header_of(cells))  # of another table in the file
        if header is not None and len(cells) == len(header.names) and not is_next:
            yield TableRow(header, cells, text.line)
            continue
        if is_next:
            header = header_of(cells)
        elif header is not None:
            cut = text.line
    if cut:
        found.warn("lines with another number of columns than their header are left out", cut)


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
