"""Pages of Nsight Compute with a row for each launch; the first row below the header holds the units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..collector import Collector
from ..columns import Columns, WantedColumns
from .header import PageHeader
from .launches import LaunchBlock, MetricCell, MetricTable, PrintedLaunch, printed

ASK_AGAIN = 32  # rows


class WidePage:
    """The rows below one header."""

    def __init__(self, header: PageHeader, found: Collector, wanted: Callable[[str], bool]) -> None:
        """wanted: whether to hand out a metric, by its name; asked again every now and then."""
        self._header = header
        self._found = found
        self._is_wanted = wanted
        self._wanted = [one for one in header.metrics if wanted(one[1])]
        self._at_units = True
        self._rows = 0
        self._table: MetricTable | None = None  # of blocks
        self._plain: set[int] = set()  # columns that are best read so, as the last block shows
        self._likely: set[int] | None = None  # columns of numbers without commas so far

    def add(self, row: Sequence[str], line: int) -> Iterator[PrintedLaunch]:
        if len(row) != len(self._header.cells):
            if row:
                self._found.warn("row with another number of columns than its header; it is left out", line)
            return
        if self._at_units:
            self._at_units = False
            if not self._header.cell(row, "id") and not self._header.cell(row, "kernel name"):
                self._wanted = [(i, name, unit or row[i]) for i, name, unit in self._wanted]
                return
            self._found.warn("no row of units below the header", line)
        self._rows += 1
        if self._rows % ASK_AGAIN == 0:
            self._ask_again()
        metrics = {name: [MetricCell(row[i], unit)] for i, name, unit in self._wanted}
        yield printed(self._header.shown(row), metrics, line)

    def wanted(self) -> WantedColumns | None:
        """The columns that `add_block` needs; None while rows are to be read one by one."""
        self._ask_again()
        _, _, units = zip(*self._wanted, strict=True) if self._wanted else ((), (), ())
        if self._at_units or not units or None in units:
            return None
        shown = [at for at in self._header.printed if at >= 0]
        text = {0, *shown, *(at for at, _, _ in self._wanted)}
        return WantedColumns(sorted(text), plain=self._plain, likely=text & (self._likely or set()))

    def add_block(self, block: Columns, line: int) -> Iterator[LaunchBlock]:
        """The same as `add` for each of the rows, handed out together."""
        at, names, units = zip(*self._wanted, strict=True)
        if self._table is None or self._table.names != names:
            self._table = MetricTable(names, units)
        cells = [(column, 0) for column in at]
        yield LaunchBlock(self._table, cells, 0, 1, len(block), block, self._header, line)
        numbers = {0, *at} - {*self._header.printed}
        self._likely = block.plain_numbers(numbers if self._likely is None else numbers & self._likely)
        self._plain = block.plain({*at, *self._header.printed} - self._likely - {-1})

    def _ask_again(self) -> None:
        self._wanted = [one for one in self._wanted if self._is_wanted(one[1])]

    def end(self, at_end: bool = False) -> Iterator[PrintedLaunch]:
        return iter(())
