"""Lines of a table as columns, by Arrow's reader of CSV, and columns as numbers and as distinct texts.

pyarrow comes with the extra `import`. Without it, and for a few lines, there are no columns, and readers take
line by line, which gives the same and takes ten times as long.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]
else:
    Array = Any  # numpy is loaded where it is needed

LEAST = 1 << 14  # bytes: of fewer, loading Arrow costs more than it saves
_PIECE = 1 << 17  # bytes
_MOST = 1e300
_MOST_COMBINED = 1 << 40
_FEW_TIMES = 4  # so many times as many combinations as rows are sooner told apart without sorting
_END, _COMMA, _MINUS, _POINT, _ZERO, _NINE = map(ord, "\n,-.09")
_PLAIN = r"^(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$"
_GROUPED = r"^(?:\d+\.?\d*|\.\d+|\d{1,3}(?:,\d{3})+(?:\.\d+)?)$"
HAS_ARROW = all(importlib.util.find_spec(one) for one in ("pyarrow", "numpy"))


class Distinct(NamedTuple):
    """A column of few different texts: these, and the place in them of each cell."""

    texts: list[str]
    which: Array


class Columns:
    """Rows that follow each other, a line each, all as wide as the table; some or all of its columns."""

    def __init__(self, table: Any, data: bytes, ends: Array, separator: str) -> None:
        """table: of Arrow, whose columns are named by their places; of text, or of numbers where that was
        asked for. data: the lines; ends: where each but the last ends in it."""
        self._table = table
        self._data, self._ends, self._separator = data, ends, separator
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
        begin = int(self._ends[first - 1]) + 1 if first else 0
        stop = int(self._ends[end - 1]) if end < len(self) else len(self._data)
        lines = self._data[begin:stop].decode().split("\n")
        return csv.reader(lines, delimiter=self._separator, skipinitialspace=skips_blanks)

    def distinct(self, column: int, rows: slice = slice(None)) -> Distinct:
        """Of those rows."""
        key = column, rows.start, rows.stop, rows.step
        if key not in self._distinct:
            self._distinct[key] = _distinct(self._cells(column), rows)
        return self._distinct[key]

    def firsts(self, column: int) -> list[int]:
        """Of each different text that begins with a letter the first row that has it."""
        if not _may_begin_with_letters(self._cells(column)):
            return []
        texts, which = self.distinct(column)
        return [int((which == at).argmax()) for at, text in enumerate(texts) if text[:1].isalpha()]

    def numbers(self, column: int, has_groups: bool = False, rows: Array | None = None) -> Array:
        """Numbers without sign, as floats, of those rows (None: all); has_groups: commas may stand between
        groups of three digits. NaN where a cell is anything else."""
        if rows is not None:
            return _numbers(_taken(self._cells(column), rows), has_groups)
        if column not in self._numbers:
            self._numbers[column] = _numbers(self._cells(column), has_groups)
        return self._numbers[column]

    def numbers_within(self, column: int, before: str, after: str) -> Array | None:
        """The numbers of cells that all have the same before and behind them; None where one has not."""
        return _numbers_within(self._cells(column), before.encode(), after.encode())

    def read_numbers(self, columns: Sequence[int]) -> None:
        """The same for several columns at once, which is sooner; `numbers` then has them."""
        import pyarrow

        for column in columns:
            if column not in self._numbers and _is_of_zeros(self._cells(column)):
                self._numbers[column] = _zeros(len(self))
        left = [column for column in columns if column not in self._numbers]
        if left:
            found = _numbers(pyarrow.concat_arrays(list(map(self._cells, left))), has_groups=True)
            self._numbers |= zip(left, found.reshape(len(left), -1), strict=True)

    def changes(self, columns: Sequence[int], first: bool) -> Array:
        """Rows in which one of these columns is not as in the row before; first: whether the first is one."""
        import numpy
        import pyarrow.compute as compute

        differs = numpy.zeros(len(self), bool)
        differs[0] = first
        for column in columns:
            cells = self._cells(column)
            differs[1:] |= _values(compute.not_equal(cells[1:], cells[:-1]))
        return differs.nonzero()[0]


class WantedColumns(NamedTuple):
    """Columns to be read. numeric: those whose cells all are plain numbers."""

    text: Sequence[int]
    numeric: Sequence[int] = ()


def columns(
    lines: bytes,
    width: int,
    separator: str = ",",
    wanted: WantedColumns | None = None,
    begins: Sequence[bytes] = (),
) -> Columns | None:
    """The columns of lines that all have `width` cells; None where one has not, or where that is not sure.

    lines: whole ones in UTF-8, without the end of the last; quotes may stand around cells. wanted: None for
    all columns. begins: the characters that a line may have in its first places; None, too, where one has
    others.
    """
    if len(lines) < LEAST or not HAS_ARROW or len(separator) != 1:
        return None
    if lines.count(b'"', lines.rfind(b"\n") + 1) % 2:
        return None  # a cell that goes on behind these lines
    import numpy
    import pyarrow
    from pyarrow import csv as arrow_csv

    characters = numpy.frombuffer(lines, numpy.uint8)
    ends = _places(characters[:-1], _END)
    for place, some in enumerate(begins):
        places = numpy.concatenate([[place], ends + 1 + place])
        if not _are_all(characters.take(places, mode="clip"), some):
            return None
    wanted = wanted or WantedColumns(range(width))
    names = [str(at) for at in range(width)]
    types = {names[at]: pyarrow.string() for at in wanted.text}
    types |= {names[at]: pyarrow.float64() for at in wanted.numeric}
    try:
        table = arrow_csv.read_csv(
            pyarrow.BufferReader(lines),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=names),
            arrow_csv.ParseOptions(delimiter=separator, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
        )
    except pyarrow.ArrowInvalid:
        return None
    # Fewer rows than lines: a cell with a line end in it.
    return Columns(table, lines, ends, separator) if table.num_rows == len(ends) + 1 else None


def _places(characters: Array, one: int) -> Array:
    """Where a character stands. Piece by piece: fresh memory as large as the lines costs more than that."""
    import numpy

    pieces = range(0, max(len(characters), 1), _PIECE)
    return numpy.concatenate([(characters[at : at + _PIECE] == one).nonzero()[0] + at for at in pieces])


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
    cells = rows * shape[1] + names.which
    table = numpy.bincount(cells, values, shape[0] * shape[1]).reshape(shape)
    is_there = numpy.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape) > 0
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


def _distinct(cells: Any, rows: slice) -> Distinct:
    import numpy

    chosen = cells[rows.start or 0 : rows.stop]
    if rows.step not in (None, 1):
        chosen = _taken(chosen, numpy.arange(0, len(chosen), rows.step))
    coded = chosen.dictionary_encode()
    return Distinct(coded.dictionary.to_pylist(), _values(coded.indices))


def _numbers(cells: Any, has_groups: bool) -> Array:
    import pyarrow
    import pyarrow.compute as compute

    if pyarrow.types.is_floating(cells.type):
        return _usual(_values(cells))
    plain = _ungrouped(cells) if has_groups else cells
    try:
        if plain is None:
            raise pyarrow.ArrowInvalid
        found = compute.cast(plain, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        are_plain = compute.match_substring_regex(cells, _GROUPED if has_groups else _PLAIN)
        plain = compute.replace_substring(cells, ",", "") if has_groups else cells
        found = compute.cast(compute.if_else(are_plain, plain, "nan"), pyarrow.float64())
    return _usual(_values(found))


def _may_begin_with_letters(cells: Any) -> bool:
    """Whether a cell does; numbers do not."""
    import pyarrow

    if pyarrow.types.is_floating(cells.type):
        return False
    data, offsets = _characters(cells)
    begins = offsets[:-1][offsets[1:] > offsets[:-1]]
    return bool((data[begins] > _NINE).any())  # all letters are behind the digits


def _is_of_zeros(cells: Any) -> bool:
    """Whether each cell is "0", as many columns of counters have it."""
    data, offsets = _characters(cells)
    return len(data) == len(cells) and bool((data == _ZERO).all() and (offsets[1:] > offsets[:-1]).all())


def _zeros(size: int) -> Array:
    import numpy

    return numpy.zeros(size)


def _characters(cells: Any) -> tuple[Array, Array]:
    """Those of all text cells, and where each cell begins in them and the last ends."""
    import numpy

    offsets = numpy.frombuffer(cells.buffers()[1], numpy.int32)[cells.offset : cells.offset + len(cells) + 1]
    data = numpy.frombuffer(cells.buffers()[2] or b"", numpy.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def _numbers_within(cells: Any, before: bytes, after: bytes) -> Array | None:
    import numpy
    import pyarrow
    import pyarrow.compute as compute

    data, offsets = _characters(cells)
    size = len(before) + len(after)
    if (offsets[1:] - offsets[:-1]).min() <= size:
        return None
    is_number = numpy.ones(len(data), bool)
    places = [(offsets[:-1] + at, one) for at, one in enumerate(before)]
    places += [(offsets[1:] - len(after) + at, one) for at, one in enumerate(after)]
    for at, one in places:
        if not (data[at] == one).all():
            return None
        is_number[at] = False
    plain = data[is_number]
    if plain.min() < _MINUS or plain.max() > _NINE:
        return None
    buffers = map(pyarrow.py_buffer, (offsets - size * numpy.arange(len(offsets), dtype=numpy.int32), plain))
    try:
        cast = compute.cast(pyarrow.StringArray.from_buffers(len(cells), *buffers), pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return None
    found = _values(cast)
    return found if numpy.abs(found).max() < _MOST else None


def _ungrouped(cells: Any) -> Any | None:
    """The cells without the commas between groups of three digits; None where a comma stands elsewhere, or
    where there are letters beside commas."""
    import numpy
    import pyarrow

    data, offsets = _characters(cells)
    is_comma = data == _COMMA
    if not is_comma.any():
        return cells
    plain = data[~is_comma]
    before = numpy.zeros(len(data) + 1, numpy.int32)  # commas before each character
    numpy.cumsum(is_comma, out=before[1:])
    before = before[offsets]
    times = before[1:] - before[:-1]
    begins, ends = numpy.repeat(offsets[:-1], times), numpy.repeat(offsets[1:], times)
    if plain.max() > _NINE or not _are_of_groups(data, is_comma.nonzero()[0], begins, ends):
        return None
    buffers = map(pyarrow.py_buffer, (offsets - before, plain))
    return pyarrow.StringArray.from_buffers(len(cells), *buffers)


def _are_of_groups(data: Array, commas: Array, begins: Array, ends: Array) -> bool:
    """Whether each comma stands before three digits, and the first of a cell behind one to three. begins,
    ends: of the cell of each."""
    import numpy

    is_digit = data - _ZERO <= 9  # of characters without sign, which begin again behind 255
    is_first = numpy.ones(len(commas), bool)
    is_first[1:] = begins[1:] != begins[:-1]
    closing = data.take(commas + 4, mode="clip")
    is_closed = (commas + 4 == ends) | (closing == _COMMA) | (closing == _POINT)
    heads = (commas - begins)[is_first]
    return bool(
        (commas + 4 <= ends).all()
        and is_closed.all()
        and all(is_digit[commas + at].all() for at in (1, 2, 3))
        and (numpy.diff(commas)[~is_first[1:]] == 4).all()
        and heads.min() >= 1
        and heads.max() <= 3
        and all(is_digit[commas[is_first][heads >= at] - at].all() for at in (1, 2, 3))
    )


# As memory: where pandas is installed, Arrow's own ways from and to NumPy load it first, which takes longer
# than many a file.


def _values(cells: Any) -> Array:
    """Of Arrow's numbers or truth values, none of which is missing."""
    import numpy
    import pyarrow

    size = len(cells)
    if pyarrow.types.is_boolean(cells.type):
        bits = numpy.frombuffer(cells.buffers()[1], numpy.uint8)
        return numpy.unpackbits(bits, bitorder="little")[cells.offset : cells.offset + size].view(bool)
    kind = {"int32": numpy.int32, "int64": numpy.int64, "double": numpy.float64}[str(cells.type)]
    return numpy.frombuffer(cells.buffers()[1], kind, size, cells.offset * kind().itemsize)


def _taken(cells: Any, rows: Array) -> Any:
    import pyarrow

    places = pyarrow.py_buffer(rows.astype("int64"))
    return cells.take(pyarrow.Array.from_buffers(pyarrow.int64(), len(rows), [None, places]))


def _usual(values: Array) -> Array:
    """The values, NaN instead of those that are no finite numbers from zero on."""
    import numpy

    if values.min(initial=0) >= 0 and values.max(initial=0) < _MOST:  # False where there is a NaN
        return values
    return numpy.where((values >= 0) & (values < _MOST), values, numpy.nan)
