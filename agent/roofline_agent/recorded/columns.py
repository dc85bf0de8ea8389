"""Lines of a table as columns, by Arrow's reader of CSV, and columns as numbers and as distinct texts.

pyarrow comes with the extra `import`. Without it, and for a few lines, there are no columns, and readers take
line by line, which gives the same and takes ten times as long.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import cells
from .cells import Array, Distinct

if TYPE_CHECKING:
    from .text import LineBlock

LEAST = 1 << 14  # bytes: of fewer, loading Arrow costs more than it saves
_MOST_COMBINED = 1 << 40
_FEW_TIMES = 4  # so many times as many combinations as rows are sooner told apart without sorting
HAS_ARROW = all(importlib.util.find_spec(one) for one in ("pyarrow", "numpy"))


class Columns:
    """Rows that follow each other, a line each, all as wide as the table; some or all of its columns."""

    def __init__(self, table: Any, lines: LineBlock, separator: str) -> None:
        """table: of Arrow, whose columns are named by their places; of text, or of numbers where that was
        asked for."""
        self._table = table
        self._lines, self._separator = lines, separator
        self._numbers: dict[int, Array] = {}
        self._distinct: dict[tuple[int, int | None, int | None, int | None], Distinct] = {}

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def _cells(self, column: int) -> Any:
        return self._table.column(str(column)).chunk(0)

    def text(self, column: int, row: int) -> str:
        return str(self._cells(column)[row].as_py())

    @property
    def places(self) -> Array:
        """The number of each row."""
        import numpy

        return numpy.arange(len(self))

    def rows(
        self, first: int = 0, end: int | None = None, skips_blanks: bool = False
    ) -> Iterator[Sequence[str]]:
        """All cells of rows, one by one; skips_blanks: those before a cell."""
        end = len(self) if end is None else end
        if first >= end:
            return iter(())
        ends = self._lines.ends
        begin = int(ends[first - 1]) + 1 if first else 0
        stop = int(ends[end - 1]) if end < len(self) else len(self._lines.data)
        lines = self._lines.data[begin:stop].decode().split("\n")
        return csv.reader(lines, delimiter=self._separator, skipinitialspace=skips_blanks)

    def distinct(self, column: int, rows: slice = slice(None)) -> Distinct:
        """Of those rows."""
        key = column, rows.start, rows.stop, rows.step
        if key not in self._distinct:
            self._distinct[key] = cells.distinct(self._cells(column), rows)
        return self._distinct[key]

    def firsts(self, column: int) -> list[int]:
        """Of each different text that begins with a letter the first row that has it."""
        if not cells.may_begin_with_letters(self._cells(column)):
            return []
        texts, which = self.distinct(column)
        return [int((which == at).argmax()) for at, text in enumerate(texts) if text[:1].isalpha()]

    def numbers(self, column: int, has_groups: bool = False, rows: Array | None = None) -> Array:
        """Numbers without sign, as floats, of those rows (None: all); has_groups: commas may stand between
        groups of three digits. NaN where a cell is anything else."""
        if rows is not None:
            return cells.numbers(cells.taken(self._cells(column), rows), has_groups)
        if column not in self._numbers:
            self._numbers[column] = cells.numbers(self._cells(column), has_groups)
        return self._numbers[column]

    def numbers_within(self, column: int, before: str, after: str) -> Array | None:
        """The numbers of cells that all have the same before and behind them; None where one has not."""
        return cells.numbers_within(self._cells(column), before.encode(), after.encode())

    def read_numbers(self, columns: Sequence[int]) -> None:
        """The same for several columns at once, which is sooner; `numbers` then has them."""
        import pyarrow

        for column in columns:
            if column not in self._numbers and cells.are_zeros(self._cells(column)):
                self._numbers[column] = _zeros(len(self))
        left = [column for column in columns if column not in self._numbers]
        if left:
            found = cells.numbers(pyarrow.concat_arrays(list(map(self._cells, left))), has_groups=True)
            self._numbers |= zip(left, found.reshape(len(left), -1), strict=True)

    def changes(self, columns: Sequence[int], first: bool) -> Array:
        """Rows in which one of these columns is not as in the row before; first: whether the first is one."""
        import numpy
        import pyarrow.compute as compute

        differs = numpy.zeros(len(self), bool)
        differs[0] = first
        for column in columns:
            these = self._cells(column)
            differs[1:] |= cells.values(compute.not_equal(these[1:], these[:-1]))
        return differs.nonzero()[0]


class WantedColumns(NamedTuple):
    """Columns to be read. numeric: those whose cells all are plain numbers."""

    text: Sequence[int]
    numeric: Sequence[int] = ()


def columns(
    lines: LineBlock,
    width: int,
    separator: str = ",",
    wanted: WantedColumns | None = None,
    begins: Sequence[bytes] = (),
) -> Columns | None:
    """The columns of lines that all have `width` cells; None where one has not, or where that is not sure.

    lines: quotes may stand around cells. wanted: None for all columns. begins: the characters that a line may
    have in its first places; None, too, where one has others.
    """
    data = lines.data
    if len(data) < LEAST or not HAS_ARROW or len(separator) != 1:
        return None
    if data.count(b'"', data.rfind(b"\n") + 1) % 2:
        return None  # a cell that goes on behind these lines
    import numpy
    import pyarrow
    from pyarrow import csv as arrow_csv

    characters = numpy.frombuffer(data, numpy.uint8)
    for place, some in enumerate(begins):
        places = numpy.concatenate([[place], lines.ends + 1 + place])
        if not _are_all(characters.take(places, mode="clip"), some):
            return None
    wanted = wanted or WantedColumns(range(width))
    names = [str(at) for at in range(width)]
    types = {names[at]: pyarrow.string() for at in wanted.text}
    types |= {names[at]: pyarrow.float64() for at in wanted.numeric}
    try:
        table = arrow_csv.read_csv(
            pyarrow.BufferReader(data),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            arrow_csv.ParseOptions(delimiter=separator, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
        )
    except pyarrow.ArrowInvalid:
        return None
    # Fewer rows than lines: a cell with a line end in it.
    return Columns(table, lines, separator) if table.num_rows == len(lines.ends) + 1 else None


def _are_all(characters: Array, some: bytes) -> bool:
    import numpy

    known = numpy.zeros(256, bool)
    known[list(some)] = True
    return bool(known[characters].all())


def combined(columns: Sequence[Array]) -> tuple[Array, Array]:
    """Rows by what several columns of small whole numbers hold together: the first row of each combination,
    and which combination each row has."""
    import numpy

    total = numpy.zeros(len(columns[0]), numpy.int64)
    for column in columns:
        total = total * (int(column.max(initial=0)) + 1) + column
        if total.max(initial=0) > _MOST_COMBINED:
            total = numpy.unique(total, return_inverse=True)[1]
    if total.max(initial=0) > _FEW_TIMES * len(total):
        _, firsts, which = numpy.unique(total, return_index=True, return_inverse=True)
        return firsts, which
    kinds = numpy.bincount(total).nonzero()[0]
    firsts, places = numpy.zeros(kinds[-1] + 1, int), numpy.zeros(kinds[-1] + 1, int)
    firsts[total[::-1]] = numpy.arange(len(total))[::-1]  # of those assigned to one place the last stays
    places[kinds] = numpy.arange(len(kinds))
    return firsts[kinds], places[total]


def groups(table: Array) -> Iterator[Array]:
    """The rows of a table of truth values by what they hold: the numbers of those that are equal."""
    firsts, which = combined(list(table.T))
    for kind in range(len(firsts)):
        yield (which == kind).nonzero()[0]


def first_of_each(values: Array) -> Array:
    """Where each value stands for the first time, in order."""
    import numpy

    firsts = numpy.unique(values, return_index=True)[1]
    firsts.sort()
    return firsts


def repeated(times: Array) -> Array:
    """0 as many times as the first says, 1 as many as the second, and so on."""
    import numpy

    return numpy.repeat(numpy.arange(len(times)), times)


def sums_by(rows: Array, names: Distinct, values: Array) -> tuple[Array, Array]:
    """The sums of values by their row and name, a table, and which of its cells have a value at all. rows: in
    order."""
    import numpy

    shape = int(rows[-1]) + 1, len(names.texts)
    places = rows * shape[1] + names.which
    table = numpy.bincount(places, values, shape[0] * shape[1]).reshape(shape)
    is_there = numpy.bincount(places, minlength=shape[0] * shape[1]).reshape(shape) > 0
    return table, is_there


def spread(values: Sequence[Any], which: Array) -> Array:
    """Of each row the value of its kind."""
    import numpy

    return numpy.array(values)[which]


def largest(columns: Sequence[Array], size: int) -> Array:
    """Of each row the place of the column with its largest value; -1 where all are 0. size: rows."""
    import numpy

    if not columns:
        return numpy.full(size, -1)
    table = numpy.stack(columns)
    return numpy.where(table.any(axis=0), table.argmax(axis=0), -1)


def in_turns(columns: Sequence[Array]) -> Array:
    """The first of each column, then the second of each, and so on."""
    import numpy

    return numpy.stack(columns, axis=1).ravel()


def turns(times: int, columns: int) -> Array:
    """Of each of such numbers the column."""
    import numpy

    return numpy.tile(numpy.arange(columns), times)


def sums(which: Array, values: Array | None, kinds: int) -> list[float]:
    """The sum of the values of each kind; values None: how many there are."""
    import numpy

    return list(numpy.bincount(which, values, kinds).tolist())


def _zeros(size: int) -> Array:
    import numpy

    return numpy.zeros(size)
