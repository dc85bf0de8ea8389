"""Pages of Nsight Compute with a row for each metric; rows of one launch are together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..cells import Array
from ..collector import Collector
from ..columns import Columns, WantedColumns
from .header import PageHeader
from .launches import LaunchBlock, MetricCell, MetricTable, PrintedLaunch, printed

MAX_TABLES = 1000  # different ones of a file that are kept


class LongPage:
    """The rows below one header."""

    def __init__(self, header: PageHeader, found: Collector) -> None:
        self._header = header
        self._found = found
        self._key: tuple[str, ...] | None = None
        self._first: Sequence[str] = []
        self._line = 0
        self._metrics: dict[str, list[MetricCell]] = {}
        self._before: list[str] = []  # metrics of the launch before
        self._tables: dict[tuple[tuple[str, ...], tuple[str, ...]], MetricTable] = {}
        self._is_cut = self._is_short = False
        self._name = header.at["metric name"]
        self._unit = header.at.get("metric unit")
        self._keys = [
            i for i in map(header.at.get, ("id", "process id", "kernel name", "device")) if i is not None
        ]
        self._has_id = "id" in header.at
        if not self._has_id:
            extra = ("grid size", "block size", "context", "stream")
            self._keys += [i for i in map(header.at.get, extra) if i is not None]
        self._plain: set[int] = set()  # columns that are best read so, as the last block shows
        self._repeats = False  # whether all launches of the last block had the same metrics
        self._likely: set[int] | None = None  # columns of numbers without commas so far
        self._least = 1 + max(header.value, self._name, self._unit or 0, *self._keys, 0)

    def add(self, row: Sequence[str], line: int) -> Iterator[PrintedLaunch]:
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
            cell = MetricCell(row[self._header.value], None if self._unit is None else row[self._unit])
            self._metrics.setdefault(name, []).append(cell)

    def wanted(self) -> WantedColumns:
        """The columns that `add_block` needs, and the first."""
        shown = [at for at in self._header.printed if at >= 0]
        others = [self._name, self._header.value, *([] if self._unit is None else [self._unit])]
        text = sorted({0, *self._keys, *shown, *others})
        return WantedColumns(text, plain=self._plain, likely=self._likely or ())

    def add_block(self, block: Columns, line: int) -> Iterator[PrintedLaunch | LaunchBlock]:
        """The same as `add` for each of the rows; launches whose rows are all in the block are handed out
        together."""
        is_new = tuple(block.text(i, 0) for i in self._keys) != self._key
        begins = block.changes(self._keys, is_new)
        if not self._has_id or self._unit is None or not len(begins):
            yield from self._add_rows(block, 0, len(block), line)
            return
        yield from self._add_rows(block, 0, int(begins[0]), line)
        if len(begins) > 1:
            yield from self._flush()
            yield from self._whole(block, begins, line, self._unit)
        yield from self._add_rows(block, int(begins[-1]), len(block), line)  # it may go on in the next block
        self._likely = block.plain_numbers({self._header.at["id"]} if self._likely is None else self._likely)
        self._plain = block.plain({*self.wanted().text} - self._likely)
        if self._repeats:
            self._plain |= {self._name, self._unit}

    def _add_rows(self, block: Columns, first: int, end: int, line: int) -> Iterator[PrintedLaunch]:
        for number, row in enumerate(block.rows(first, end), line + first):
            yield from self.add(row, number)

    def _whole(
        self, block: Columns, begins: Array, line: int, unit: int
    ) -> Iterator[PrintedLaunch | LaunchBlock]:
        """Launches that begin at all places but the last, where the last of them ends."""
        for first, end, step in self._runs(block, begins, unit):
            rows = range(first, first + step)
            table = self._table(
                tuple(block.text(self._name, row) for row in rows),
                tuple(block.text(unit, row) for row in rows),
            )
            if table is None:
                yield from self._add_rows(block, first, end, line)
                yield from self._flush()
                continue
            cells = [(self._header.value, row) for row in range(step)]
            yield LaunchBlock(table, cells, first, step, (end - first) // step, block, self._header, line)
        last = range(int(begins[-2]), int(begins[-1]))
        self._before, self._key = [block.text(self._name, row) for row in last], None

    def _runs(self, block: Columns, begins: Array, unit: int) -> Iterator[tuple[int, int, int]]:
        """As `_alike`."""
        first, step = int(begins[0]), int(begins[1] - begins[0])
        self._repeats = bool((begins[1:] - begins[:-1] == step).all()) and all(
            block.repeats(column, step) for column in (self._name, unit)
        )
        if self._repeats:
            return iter([(first, int(begins[-1]), step)])
        names, units = block.distinct(self._name), block.distinct(unit)
        return _alike(begins, names.which * len(units.texts) + units.which)

    def _table(self, names: tuple[str, ...], units: tuple[str, ...]) -> MetricTable | None:
        """None where rows have no metric, or where there are too many tables."""
        table = self._tables.get((names, units))
        if table is None and len(self._tables) < MAX_TABLES and all(names):
            table = self._tables[names, units] = MetricTable(names, units)
        return table

    def end(self, at_end: bool = False) -> Iterator[PrintedLaunch]:
        names = list(self._metrics)
        fewer = 0 < len(names) < len(self._before) and self._before[: len(names)] == names
        self._is_cut = self._is_cut or (at_end and (self._is_short or fewer))
        yield from self._flush()

    def _flush(self) -> Iterator[PrintedLaunch]:
        if self._is_cut and self._key is not None:
            self._found.warn("a launch of which not every row is there; it is left out", self._line)
        elif self._metrics:
            yield printed(self._header.shown(self._first), self._metrics, self._line)
        self._before = list(self._metrics) or self._before
        self._metrics = {}
        self._is_cut = False


def _alike(begins: Array, kinds: Array) -> Iterator[tuple[int, int, int]]:
    """Launches that follow each other and have the same metrics: their first row, the end of their last, and
    the rows of each. kinds: of each row."""
    steps = begins[1:] - begins[:-1]
    for one, other in pairwise(_bounds(steps[1:] != steps[:-1])):
        first, end, step = int(begins[one]), int(begins[other]), int(steps[one])
        rows = kinds[first:end].reshape(-1, step)
        bounds = _bounds((rows[1:] != rows[:-1]).any(axis=1))
        yield from ((first + a * step, first + b * step, step) for a, b in pairwise(bounds))


def _bounds(changes: Array) -> list[int]:
    """Where runs of equal things begin, and the end of the last. changes: of each but the first, whether it
    differs from the one before."""
    return [0, *(changes.nonzero()[0] + 1).tolist(), len(changes) + 1]
