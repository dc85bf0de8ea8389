"""Launches as Nsight Compute prints them, one by one or in columns; what is missing stays missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..cells import Array, Distinct
from ..columns import Columns
from .header import PageHeader


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
    process: str = ""

    @property
    def cells(self) -> Iterable[str]:
        """The cells of its metrics, without their units."""
        if self.table is not None:
            return self.values
        return (cell.value for cells in self.metrics.values() for cell in cells)

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


class LaunchBlock(NamedTuple):
    """Launches that follow each other and share a table, in columns."""

    table: MetricTable
    cells: Sequence[tuple[int, int]]  # of each metric of the table: its column, and its row within a launch
    first: int  # row of the first launch
    step: int  # rows of a launch
    launches: int
    columns: Columns
    header: PageHeader
    line: int  # of the columns' first row

    def numbers(self, metric: int) -> Array:
        """The number of a metric in each launch; NaN where it is no plain number."""
        column, row = self.cells[metric]
        begin = self.first + row
        found = self.columns.numbers(column, has_groups=True)
        return found[begin : begin + self.launches * self.step : self.step]

    def distinct(self, name: str) -> Distinct | None:
        """What each launch has in one of the columns of PRINTED; None where there is no such column."""
        column = self.header.at.get(name)
        return None if column is None else self._distinct(column, 0)

    @property
    def kernels(self) -> list[str]:
        """The different names."""
        names = self.distinct("kernel name")
        return names.texts if names is not None else []

    def distinct_values(self, metric: int) -> list[str]:
        """The different cells of a metric."""
        return self._distinct(*self.cells[metric]).texts

    def marked_cells(self) -> Iterator[str]:
        """Cells of the metrics' columns with commas or points, each text at least once."""
        for column in {column for column, _ in self.cells}:
            yield from self.columns.marked(column)

    def _distinct(self, column: int, row: int) -> Distinct:
        begin = self.first + row
        return self.columns.distinct(column, slice(begin, begin + self.launches * self.step, self.step))

    def launch(self, at: int) -> PrintedLaunch:
        row = self.first + at * self.step
        values = tuple(self.columns.text(column, row + below) for column, below in self.cells)
        shown = [self.columns.text(at, row).strip() if at >= 0 else "" for at in self.header.printed]
        return printed(shown, {}, self.line + row, self.table, values)


def printed(
    shown: Sequence[str],
    metrics: dict[str, list[MetricCell]],
    line: int,
    table: MetricTable | None = None,
    values: tuple[str, ...] = (),
) -> PrintedLaunch:
    """A launch. shown: its cells of PRINTED."""
    kernel, device, cc, grid, block, times, process = shown
    count = times.replace(",", "") if times else ""
    is_count = count.isascii() and count.isdigit() and len(count) < 15
    many = int(count) if is_count else 1
    return PrintedLaunch(kernel, metrics, line, device, cc, grid, block, many, table, values, process)


@lru_cache(maxsize=4096)
def problem(grid: str, block: str) -> str:
    """The sizes of a launch in words."""
    parts = (("grid", grid), ("block", block))
    return ", ".join(f"{name} {size}" for name, size in parts if size)
