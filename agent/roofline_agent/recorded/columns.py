"""Lines of a table as columns, by Arrow's reader of CSV, and columns as numbers and as distinct texts.

pyarrow comes with the extra `import`. Without it, and for a few lines, there are no columns, and readers take
line by line, which gives the same and takes ten times as long.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]
else:
    Array = Any  # numpy is loaded where it is needed

LEAST = 1 << 14  # bytes: of fewer, loading Arrow costs more than it saves
_MOST = 1e300
_MOST_COMBINED = 1 << 40
_END = ord("\n")
_PLAIN = r"^(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$"
_GROUPED = r"^(?:\d+\.?\d*|\.\d+|\d{1,3}(?:,\d{3})+(?:\.\d+)?)$"
HAS_ARROW = all(importlib.util.find_spec(one) for one in ("pyarrow", "numpy"))


class Distinct(NamedTuple):
    """A column of few different texts: these, and the place in them of each cell."""

    texts: list[str]
    which: Array


class Columns:
    """Rows that follow each other, a line each, all as wide as the table; some or all of its columns."""

    def __init__(self, table: Any) -> None:
        """table: of Arrow, whose columns are named by their places; of text, or of numbers where that was
        asked for."""
        self._table = table
        self._numbers: dict[int, Array] = {}
        self._distinct: dict[tuple[int, int | None, int | None, int | None], Distinct] = {}

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def _cells(self, column: int) -> Any:
        return self._table.column(str(column)).chunk(0)

    def text(self, column: int, row: int) -> str:
        return str(self._cells(column)[row].as_py())

    def rows(self, first: int, end: int) -> Iterator[tuple[str, ...]]:
        """Where all columns are there."""
        some = self._table.slice(first, end - first)
        return zip(*(column.to_pylist() for column in some.columns), strict=True)

    def distinct(self, column: int, rows: slice = slice(None)) -> Distinct:
        """Of those rows."""
        key = column, rows.start, rows.stop, rows.step
        if key not in self._distinct:
            self._distinct[key] = _distinct(self._cells(column), rows)
        return self._distinct[key]

    def numbers(self, column: int, has_groups: bool = False, rows: Array | None = None) -> Array:
        """Numbers without sign, as floats, of those rows (None: all); has_groups: commas may stand between
        groups of three digits. NaN where a cell is anything else."""
        if rows is not None:
            return _numbers(_taken(self._cells(column), rows), has_groups)
        if column not in self._numbers:
            self._numbers[column] = _numbers(self._cells(column), has_groups)
        return self._numbers[column]

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
    lines: bytes, width: int, separator: str = ",", wanted: WantedColumns | None = None, begins: bytes = b""
) -> Columns | None:
    """The columns of lines that all have `width` cells; None where one has not, or where that is not sure.

    lines: whole ones in UTF-8, without the end of the last; quotes may stand around cells. wanted: None for
    all columns. begins: None, too, where a line does not begin with one of these characters.
    """
    if len(lines) < LEAST or not HAS_ARROW or len(separator) != 1:
        return None
    if lines.count(b'"', lines.rfind(b"\n") + 1) % 2:
        return None  # a cell that goes on behind these lines
    import numpy
    import pyarrow
    from pyarrow import csv

    characters = numpy.frombuffer(lines, numpy.uint8)
    ends = (characters[:-1] == _END).nonzero()[0]
    if begins and not (lines[0] in begins and _are_all(characters[ends + 1], begins)):
        return None
    wanted = wanted or WantedColumns(range(width))
    names = [str(at) for at in range(width)]
    types = {names[at]: pyarrow.string() for at in wanted.text}
    types |= {names[at]: pyarrow.float64() for at in wanted.numeric}
    try:
        table = csv.read_csv(
            pyarrow.BufferReader(lines),
            csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=names),
            csv.ParseOptions(delimiter=separator, ignore_empty_lines=False),
            csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
        )
    except pyarrow.ArrowInvalid:
        return None
    # Fewer rows than lines: a cell with a line end in it.
    return Columns(table) if table.num_rows == len(ends) + 1 else None


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
    _, firsts, which = numpy.unique(total, return_index=True, return_inverse=True)
    return firsts, which


def spread(values: Sequence[Any], which: Array) -> Array:
    """Of each row the value of its kind."""
    import numpy

    return numpy.array(values)[which]


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
    plain = cells
    try:
        characters = bytes(cells.buffers()[2] or b"") if has_groups else b""
        if b"," in characters:
            plain = compute.replace_substring(cells, ",", "")
            if b"e" in characters or b"E" in characters or not _are_grouped(cells, plain):
                raise pyarrow.ArrowInvalid
        found = compute.cast(plain, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        are_plain = compute.match_substring_regex(cells, _GROUPED if has_groups else _PLAIN)
        found = compute.cast(compute.if_else(are_plain, plain, "nan"), pyarrow.float64())
    return _usual(_values(found))


def _is_of_zeros(cells: Any) -> bool:
    """Whether each cell is "0", as many columns of counters have it."""
    begin, end = _offsets(cells)
    return bool(end - begin == len(cells) and cells.buffers()[2][begin:end].to_pybytes() == b"0" * len(cells))


def _zeros(size: int) -> Array:
    import numpy

    return numpy.zeros(size)


def _offsets(cells: Any) -> tuple[int, int]:
    """Where the characters of text cells begin in their memory, and where they end."""
    import numpy

    offsets = numpy.frombuffer(cells.buffers()[1], numpy.int32)
    return int(offsets[cells.offset]), int(offsets[cells.offset + len(cells)])


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


def _are_grouped(cells: Any, plain: Any) -> bool:
    """Whether every comma stands before three digits of a whole number. plain: the cells without commas."""
    import numpy
    import pyarrow.compute as compute

    lengths = _values(compute.binary_length(plain))
    commas = _values(compute.binary_length(cells)) - lengths
    points = _values(compute.find_substring(plain, "."))
    firsts = _values(compute.find_substring(cells, ","))
    wholes = numpy.where(points < 0, lengths, points) - 3 * commas  # digits before the first comma
    some = commas > 0
    if not ((firsts == wholes) & (firsts > 0) & (firsts <= 3))[some].all():
        return False
    # Between two commas of a cell there are three digits.
    begin, end = _offsets(cells)
    places = (numpy.frombuffer(cells.buffers()[2], numpy.uint8)[begin:end] == ord(",")).nonzero()[0]
    is_same = numpy.ones(len(places), bool)  # cell as the comma before
    is_same[(numpy.cumsum(commas) - commas)[some]] = False
    return bool((numpy.diff(places)[is_same[1:]] == 4).all())
