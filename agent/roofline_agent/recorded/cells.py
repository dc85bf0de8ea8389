"""Cells of a column of Arrow as numbers and as distinct texts, by their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]
else:
    Array = Any  # numpy is loaded where it is needed

_PIECE = 1 << 17  # bytes
_MOST = 1e300
_COMMA, _MINUS, _POINT, _ZERO, _NINE = map(ord, ",-.09")
_PLAIN = r"^(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$"
_GROUPED = r"^(?:\d+\.?\d*|\.\d+|\d{1,3}(?:,\d{3})+(?:\.\d+)?)$"


class Distinct(NamedTuple):
    """A column of few different texts: these, and the place in them of each cell."""

    texts: list[str]
    which: Array


def places_of(data: bytes, character: bytes) -> Array:
    """Where a character stands. Piece by piece: fresh memory as large as the data costs more than that."""
    import numpy

    characters = numpy.frombuffer(data, numpy.uint8)
    pieces = range(0, max(len(data), 1), _PIECE)
    return numpy.concatenate(
        [(characters[at : at + _PIECE] == character[0]).nonzero()[0] + at for at in pieces]
    )


def distinct(cells: Any, rows: slice) -> Distinct:
    import numpy

    chosen = cells[rows.start or 0 : rows.stop]
    if rows.step not in (None, 1):
        chosen = taken(chosen, numpy.arange(0, len(chosen), rows.step))
    coded = chosen.dictionary_encode()
    return Distinct(coded.dictionary.to_pylist(), values(coded.indices))


def numbers(cells: Any, has_groups: bool) -> Array:
    import pyarrow
    import pyarrow.compute as compute

    if pyarrow.types.is_floating(cells.type):
        return _usual(values(cells))
    plain = _ungrouped(cells) if has_groups else cells
    try:
        if plain is None:
            raise pyarrow.ArrowInvalid
        found = compute.cast(plain, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        are_plain = compute.match_substring_regex(cells, _GROUPED if has_groups else _PLAIN)
        plain = compute.replace_substring(cells, ",", "") if has_groups else cells
        found = compute.cast(compute.if_else(are_plain, plain, "nan"), pyarrow.float64())
    return _usual(values(found))


def may_begin_with_letters(cells: Any) -> bool:
    """Whether a cell does; numbers do not."""
    import pyarrow

    if pyarrow.types.is_floating(cells.type):
        return False
    data, offsets = _characters(cells)
    begins = offsets[:-1][offsets[1:] > offsets[:-1]]
    return bool((data[begins] > _NINE).any())  # all letters are behind the digits


def are_zeros(cells: Any) -> bool:
    """Whether each cell is "0", as many columns of counters have it."""
    data, offsets = _characters(cells)
    return len(data) == len(cells) and bool((data == _ZERO).all() and (offsets[1:] > offsets[:-1]).all())


def _characters(cells: Any) -> tuple[Array, Array]:
    """Those of all text cells, and where each cell begins in them and the last ends."""
    import numpy

    offsets = numpy.frombuffer(cells.buffers()[1], numpy.int32)[cells.offset : cells.offset + len(cells) + 1]
    data = numpy.frombuffer(cells.buffers()[2] or b"", numpy.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def numbers_within(cells: Any, before: bytes, after: bytes) -> Array | None:
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
    found = values(cast)
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
    if not len(plain) or plain.max() > _NINE or not _are_of_groups(data, is_comma.nonzero()[0], begins, ends):
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


def values(cells: Any) -> Array:
    """Of Arrow's numbers or truth values, none of which is missing."""
    import numpy
    import pyarrow

    size = len(cells)
    if pyarrow.types.is_boolean(cells.type):
        bits = numpy.frombuffer(cells.buffers()[1], numpy.uint8)
        return numpy.unpackbits(bits, bitorder="little")[cells.offset : cells.offset + size].view(bool)
    kind = {"int32": numpy.int32, "int64": numpy.int64, "double": numpy.float64}[str(cells.type)]
    return numpy.frombuffer(cells.buffers()[1], kind, size, cells.offset * kind().itemsize)


def taken(cells: Any, rows: Array) -> Any:
    import pyarrow

    places = pyarrow.py_buffer(rows.astype("int64"))
    return cells.take(pyarrow.Array.from_buffers(pyarrow.int64(), len(rows), [None, places]))


def _usual(values: Array) -> Array:
    """The values, NaN instead of those that are no finite numbers from zero on."""
    import numpy

    if values.min(initial=0) >= 0 and values.max(initial=0) < _MOST:  # False where there is a NaN
        return values
    return numpy.where((values >= 0) & (values < _MOST), values, numpy.nan)
