"""Rows of Nsight Compute's CSV, out of lines that may contain anything else in between.

Lines that are not rows of a table (the profiled program's own output, the profiler's messages) are handed on
to the caller.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from ..collector import Collector
from .header import is_header, may_be_header
from .other_lines import OtherLines

MAX_JOINED = 200  # lines of one row: kernel names and rule texts may hold line ends
# A table that went through another program may have lost its quotes: a row of numbers and names.
_UNQUOTED = re.compile(r"\d*(?:\.\d*)?(?:,[^,]*){9}")
_BEGINNING = re.compile(r'"(?:\d*|ID|Process ID)","')  # of a row or a header


class CsvRows:
    """Rows out of lines that may be anything: where a row ends depends on the lines before and the header."""

    def __init__(self, found: Collector, others: OtherLines) -> None:
        self.header: list[str] = []  # of the table that the last rows were of
        self._found = found
        self._others = others
        self._pending: list[str] = []
        self._first = self._commas = 0  # commas of an unquoted header: its rows have no fewer

    @property
    def is_within_row(self) -> bool:
        return bool(self._pending)

    def add(self, line: str, number: int) -> Iterator[tuple[list[str], int]]:
        """The row that ends with a line, with the number of its first; an empty one: it is cut short."""
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
        if may_be_header(row):
            self.header = row
        return row

    def end(self) -> Iterator[tuple[list[str], int]]:
        if self._pending:
            self._found.warn("row cut short: the file ends in it", self._first)
            yield [], self._first
