"""Headers of Nsight Compute's tables of kernels: which page it is, and what is where in its rows."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

NAMES = ("Kernel Name", "Metric Name")  # one of which every header has
PRINTED = ("kernel name", "device", "cc", "grid size", "block size", "invocations", "process id")
_COLUMN_UNIT = re.compile(r"^(?P<name>\S+)\s*\[(?P<unit>[^\]]*)\]$")  # "dram__bytes.sum [Mbyte]"
_WORDS = """ID, Process ID, Process Name, Host Name, Kernel Name, Kernel Time, Context, Stream, Block Size,
Grid Size, Device, CC, Section Name, Invocations, Body Item Label"""
_IDENTITY = frozenset(word.strip().lower() for word in _WORDS.split(","))


class PageHeader(NamedTuple):
    """Where things are in the rows below one header."""

    cells: list[str]
    at: Mapping[str, int]  # lower-case name -> index
    metrics: list[tuple[int, str, str | None]]  # of a wide page: index, name, unit out of the header
    printed: tuple[int, ...] = ()  # where the names of PRINTED stand, -1 nowhere

    @property
    def is_long(self) -> bool:
        return "metric name" in self.at

    @property
    def value(self) -> int:
        return self.at.get("metric value", self.at.get("average", -1))

    def shown(self, row: Sequence[str]) -> list[str]:
        """What is in a row in the columns of PRINTED, "" where there is none."""
        return [row[at].strip() if 0 <= at < len(row) else "" for at in self.printed]

    def cell(self, row: Sequence[str], name: str) -> str:
        at = self.at.get(name)
        return row[at].strip() if at is not None and at < len(row) else ""


def header_of(row: list[str]) -> PageHeader | None:
    """None if this row is no header."""
    if not may_be_header(row):  # asked of every row
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
    return PageHeader(row, at, metrics, tuple(at.get(name, -1) for name in PRINTED))


def may_be_header(cells: Sequence[str] | str) -> bool:
    """Whether it is worth looking whether a row or line is a header."""
    return any(name in cells for name in NAMES)


def is_header(line: str) -> bool:
    """Whether a line, or its beginning, is the header of a table of kernels."""
    if not may_be_header(line):
        return False
    try:
        return header_of(next(csv.reader([line]), [])) is not None
    except csv.Error:
        return False
