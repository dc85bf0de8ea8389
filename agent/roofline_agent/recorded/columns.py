"""Lines of a table as columns, by Arrow's reader of CSV, and columns as numbers and as distinct texts.

pyarrow comes with the extra `import`. Without it, and for a few lines, there are no columns, and readers take
line by line, which gives the same and takes ten times as long.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import cells
from .cells import Array, Distinct

if TYPE_CHECKING:
    from .text import LineBlock

LEAST = 1 << 14  # bytes: of fewer, loading Arrow costs more than it saves
_MOST_COMBINED = 1 << 40
_MANY = 5  # where a fifth of a column's texts differ they are many
_FEW_TIMES = 4  # combinations a row up to which counting them is faster than sorting
HAS_ARROW = all(importlib.util.find_spec(one) for one in ("pyarrow", "numpy"))


class Columns:
    """Rows that follow each other, a line each, all as wide as the table; some or all of its columns."""

    def __init__(self, table: Any, lines: LineBlock, separator: str, are_alike: bool = False) -> None:
        """table: of Arrow, whose columns are named by their places; of text, or of numbers where that was
        asked for; are_alike: whether rows differ in digits only, as `spare` says."""
        self._table = table
        self._there = set(map(int, table.column_names))
        self.are_alike = are_alike
        self._lines, self._separator = lines, separator
        self._codes: dict[int, tuple[Any, Array]] = {}
        self._texts: dict[int, list[str]] = {}
        self._parts: dict[tuple[int, int, int, int], Distinct] = {}  # of which the same are asked for again
        self._numbers: dict[int, Array] = {}
        self._row: tuple[int, Sequence[str]] | None = None  # the last of which a text was asked for

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def _cells(self, column: int) -> Any:
        return self._table.column(str(column)).chunk(0)

    def text(self, column: int, row: int) -> str:
        """As it is in the file, also where the column was read as numbers, or not at all."""
        if column in self._there and not self._is_numeric(column):
            return str(self._cells(column)[row].as_py())
        if self._row is None or self._row[0] != row:
            self._row = row, next(iter(self.rows(row, row + 1)))
        return self._row[1][column]

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
        begin = self._lines.begin(first)
        stop = self._lines.begin(end) - 1 if end < len(self) else len(self._lines.data)
        lines = self._lines.data[begin:stop].decode().split("\n")
        return csv.reader(lines, delimiter=self._separator, skipinitialspace=skips_blanks)

    def _coded(self, column: int) -> tuple[Any, Array]:
        """The different texts of a column, as Arrow has them, and which of them each row has."""
        if column not in self._codes:
            some = self._cells(column)
            if self._is_text(column) and cells.are_alike(some):
                self._codes[column] = some[:1], _zeros(len(some))
            else:
                coded = some.dictionary_encode() if self._is_text(column) else some
                self._codes[column] = coded.dictionary, cells.values(coded.indices)
        return self._codes[column]

    def _is_text(self, column: int) -> bool:
        import pyarrow

        return bool(pyarrow.types.is_string(self._cells(column).type))

    def _is_coded(self, column: int) -> bool:
        """Whether the different texts were found as the column was read, or are seen at once."""
        return not self._is_text(column) or cells.are_alike(self._cells(column))

    def _some(self, column: int) -> Any:
        """The different texts of a column, where these are known, else all."""
        return self._coded(column)[0] if self._is_coded(column) else self._cells(column)

    def plain(self, columns: Iterable[int]) -> set[int]:
        """The columns of text of which it costs less to read all than to find the different ones, as these
        are many, or one."""
        there = self._there.intersection(columns)
        return {column for column in there if self._is_text_only(column) or self._is_varied(column)}

    def _is_text_only(self, column: int) -> bool:
        return self._is_text(column) and (column not in self._codes or len(self._codes[column][0]) == 1)

    def _is_varied(self, column: int) -> bool:
        return _MANY * len(self._coded(column)[0]) > len(self) or len(self._coded(column)[0]) == 1

    def plain_numbers(self, columns: Iterable[int]) -> set[int]:
        """The columns whose cells all are numbers without groups, and so can be read as such."""
        return {column for column in columns if self._is_numeric(column) or self._has_plain_numbers(column)}

    def _has_plain_numbers(self, column: int) -> bool:
        return bool((self.numbers(column, True) >= 0).all()) and not cells.have(self._some(column), b",")

    def marked(self, column: int) -> Iterator[str]:
        """Its texts, if one has a comma or a point; of a column that was read as numbers the first with a
        point."""
        if self._is_numeric(column):
            with_points = (self.numbers(column) % 1 != 0).nonzero()[0][:1]
            yield from (self.text(column, row) for row in with_points.tolist())
        elif any(cells.have(self._some(column), mark) for mark in (b",", b".")):
            yield from (str(one.as_py()) for one in self._some(column))

    def which(self, column: int) -> Array:
        """For each row its place among the different texts of a column."""
        return self._coded(column)[1]

    def distinct(self, column: int, rows: slice = slice(None)) -> Distinct:
        """The different texts of a column, those of some rows."""
        different, which = self._coded(column)
        if column not in self._texts:
            self._texts[column] = different.to_pylist()
        texts = self._texts[column]
        if rows == slice(None):
            return Distinct(texts, which)
        key = column, rows.start, rows.stop, rows.step
        if key not in self._parts:
            self._parts[key] = cells.first_seen(texts, which[rows])
        return self._parts[key]

    def begin_with(self, column: int, some: bytes) -> bool:
        """Whether each text of a column that is not empty begins with one of these characters, digits among
        them."""
        if self._is_numeric(column):
            return bool((self.numbers(column) >= 0).all())
        return cells.begin_with(self._some(column), some)

    def firsts(self, column: int) -> list[int]:
        """The first row that has it, for each different text that begins with a letter."""
        if self._is_numeric(column) or not cells.may_begin_with_letters(self._some(column)):
            return []
        texts, which = self.distinct(column)
        return [int((which == at).argmax()) for at, text in enumerate(texts) if text[:1].isalpha()]

    def _is_numeric(self, column: int) -> bool:
        import pyarrow

        return bool(pyarrow.types.is_floating(self._cells(column).type))

    def numbers(self, column: int, has_groups: bool = False) -> Array:
        """Numbers without sign, as floats; has_groups: commas may be between groups of three digits. NaN
        where a cell is anything else."""
        if column not in self._numbers:
            if self._is_numeric(column):
                self._numbers[column] = cells.usual(cells.values(self._cells(column)))
            else:
                self._read_numbers([column], has_groups)
        return self._numbers[column]

    def letters(self, column: int) -> Array | None:
        """The characters of the different texts of a column, a row each in the order of `distinct`; None
        where these are not of one length."""
        return cells.letters(self._coded(column)[0])

    def numbers_within(self, column: int, before: str, after: str) -> Array | None:
        """The numbers in a column whose cells all have the same before and behind them; None where one has
        not."""
        found = cells.numbers_within(self._some(column), before.encode(), after.encode())
        return found if found is None or not self._is_coded(column) else found[self.which(column)]

    def are_numbers_within(self, column: int, before: str, after: str) -> bool:
        """Whether there are such, in a third of the time; False where these are not alike, or have signs."""
        return cells.are_numbers_within(self._some(column), before.encode(), after.encode())

    def read_numbers(self, columns: Sequence[int]) -> None:
        """Read the numbers of several columns at once, with groups, which is sooner; `numbers` then has
        them."""
        left = [one for one in columns if one not in self._numbers and not self._is_numeric(one)]
        if left:
            self._read_numbers(left, has_groups=True)

    def _read_numbers(self, columns: Sequence[int], has_groups: bool) -> None:
        """Of columns of text."""
        import pyarrow

        several = list(map(self._some, columns))
        found, at = cells.numbers(pyarrow.concat_arrays(several), has_groups), 0
        for column, some in zip(columns, several, strict=True):
            mine = found[at : at + len(some)]
            self._numbers[column] = mine[self.which(column)] if self._is_coded(column) else mine
            at += len(some)

    def repeats(self, column: int, step: int) -> bool:
        """Whether each text of a column is that so many rows before."""
        if self._is_text(column):
            return cells.repeat(self._cells(column), step)
        which = self.which(column)
        return bool((which[step:] == which[:-step]).all())

    def changes(self, columns: Sequence[int], first: bool) -> Array:
        """Rows in which one of these columns is not as in the row before; first: whether the first is one."""
        import numpy

        differs = numpy.zeros(len(self), bool)
        differs[0] = first
        for column in columns:
            values = self.numbers(column) if self._is_numeric(column) else self.which(column)
            differs[1:] |= values[1:] != values[:-1]
        return differs.nonzero()[0]


class WantedColumns(NamedTuple):
    """Columns to be read. numeric: those whose cells all are plain numbers; plain: those of text of which
    the different ones need not be found, as most likely all are the same or nearly all differ; likely: those
    of text that are read as numbers where all their cells are some; spare: those of text that are not read
    where all lines differ from the first in the digits of their numbers only."""

    text: Sequence[int]
    numeric: Sequence[int] = ()
    plain: Collection[int] = ()
    likely: Collection[int] = ()
    spare: Collection[int] = ()


def columns(
    lines: LineBlock,
    width: int,
    separator: str = ",",
    wanted: WantedColumns | None = None,
    begins: bytes = b"",
) -> Columns | None:
    """The columns of lines that all have `width` cells; None where one has not, or where that is not sure.

    lines: quotes may stand around cells. wanted: None for all columns. begins: the characters that a line may
    begin with; None, too, where one begins with another.
    """
    data = lines.data
    if len(data) < LEAST or not HAS_ARROW or len(separator) != 1:
        return None
    if data.count(b'"', data.rfind(b"\n") + 1) % 2:
        return None  # a cell that goes on behind these lines
    if begins and not cells.lines_begin_with(data, lines.ends, begins):
        return None
    wanted = wanted or WantedColumns(range(width))
    are_alike = bool(wanted.spare) and b'"' not in data and cells.are_lines_alike(data, lines.ends)
    if are_alike:
        wanted = wanted._replace(text=[one for one in wanted.text if one not in wanted.spare])
    table = _table(data, width, separator, wanted)
    if table is None and wanted.likely:
        table = _table(data, width, separator, wanted._replace(likely=()))
    if table is None:
        return None
    if (b'"' in data or b"\r" in data) and table.num_rows != len(lines.ends) + 1:
        return None  # a cell has a line end in it, or a line has another kind of end
    lines.count = table.num_rows
    return Columns(table, lines, separator, are_alike)


def _table(data: bytes, width: int, separator: str, wanted: WantedColumns) -> Any:
    """Of Arrow; None where lines are not alike, or a cell that should be a number is not one."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    names = [str(at) for at in range(width)]
    # Of few different texts, as most columns have them, each is stored once, and read as a number once.
    few = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    types = {names[at]: pyarrow.string() if at in wanted.plain else few for at in wanted.text}
    types |= {names[at]: pyarrow.float64() for at in (*wanted.numeric, *wanted.likely)}
    try:
        return arrow_csv.read_csv(
            pyarrow.BufferReader(data),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            arrow_csv.ParseOptions(delimiter=separator, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[], check_utf8=False
            ),
        )
    except pyarrow.ArrowInvalid:
        return None


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


def array_of(values: Sequence[float]) -> Array:
    import numpy

    return numpy.array(values)


def spread(values: Sequence[Any], which: Array) -> Array:
    """For each row the value of its kind."""
    import numpy

    return numpy.array(values)[which]


def largest(columns: Sequence[Array], size: int) -> Array:
    """For each row the place of the column with its largest value; -1 where all are 0. size: rows."""
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

    return numpy.zeros(size, numpy.int32)
