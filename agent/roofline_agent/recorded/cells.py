"""Cells of a column of Arrow as numbers and as distinct texts, by their memory."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]
else:
    Array = Any  # numpy is loaded where it is needed

_PIECE = 1 << 17  # bytes
_MOST = 1e300
_FEW_DIGITS = 300  # of a number below that
_DIGITS = b"0123456789"
_LINE_END = ord("\n")
_COMMA, _MINUS, _POINT, _ZERO, _NINE = map(ord, ",-.09")
_PLAIN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_GROUPED = re.compile(r"(?:\d+\.?\d*|\.\d+|\d{1,3}(?:,\d{3})+(?:\.\d+)?)", re.ASCII)


class Distinct(NamedTuple):
    """A column of few different texts: these, and the place in them of each cell."""

    texts: list[str]
    which: Array


def places_of(data: bytes, character: bytes) -> Array:
    """Where a character is. Piece by piece: fresh memory as large as the data costs more than that."""
    import numpy

    characters = numpy.frombuffer(data, numpy.uint8)
    pieces = range(0, max(len(data), 1), _PIECE)
    return numpy.concatenate(
        [(characters[at : at + _PIECE] == character[0]).nonzero()[0] + at for at in pieces]
    )


def lines_begin_with(data: bytes, ends: Array, some: bytes) -> bool:
    """Whether each line begins with one of these characters. ends: where each line but the last ends."""
    import numpy

    if data.endswith(b"\n"):
        return False
    characters = numpy.frombuffer(data, numpy.uint8)
    begins = (characters[:1], characters[ends + 1])
    return all(bool(_are_among(firsts, some).all()) for firsts in begins)


def are_lines_alike(data: bytes, ends: Array) -> bool:
    """Whether all lines differ from the first in the digits of their numbers only, and in how many these are,
    below 300. ends: where each line but the last ends."""
    import numpy

    first = data[: data.find(b"\n") + 1]
    shown, others = first.translate(None, _DIGITS), data.translate(None, _DIGITS)
    times = len(ends) + 1
    if others + b"\n" != shown * times or _count_of_numbers(data) != times * _count_of_numbers(first):
        return False
    return int(numpy.diff(ends, prepend=-1, append=len(data)).max()) < _FEW_DIGITS


def _count_of_numbers(data: bytes) -> int:
    """How many digits begin one."""
    import numpy

    characters = numpy.frombuffer(data, numpy.uint8)
    count = int(data[:1].isdigit())
    for at in range(0, len(data), _PIECE):
        are_digits = characters[at : at + _PIECE + 1] - _ZERO <= 9
        count += int(numpy.count_nonzero(are_digits[1:] > are_digits[:-1]))
    return count


def _are_among(characters: Array, some: bytes) -> Array:
    """Of each whether it is one of these; digits are all or none of them."""
    found: Array = characters == some[0]
    if _ZERO in some:
        found |= characters - _ZERO <= 9  # of characters without sign, which begin again behind 255
    for one in some:
        if not _ZERO <= one <= _NINE and one != some[0]:
            found |= characters == one
    return found


def first_seen(texts: list[str], which: Array) -> Distinct:
    """The texts that a part of a column has, in its order. which: of the texts that of each row."""
    import numpy

    firsts = numpy.full(len(texts), len(which))
    firsts[which[::-1]] = numpy.arange(len(which))[::-1]  # of those assigned to one place the last stays
    order = firsts.argsort(kind="stable")[: int((firsts < len(which)).sum())]
    places = numpy.zeros(len(texts), numpy.int32)
    places[order] = numpy.arange(len(order), dtype=numpy.int32)
    return Distinct([texts[at] for at in order.tolist()], places[which])


def numbers(texts: Any, has_groups: bool) -> Array:
    """The numbers in different texts, as floats; has_groups: commas may be between groups of three digits.
    NaN where one is no number from zero on."""
    import numpy

    data, offsets = _characters(texts)
    found = None
    if len(data) and data.min() >= _COMMA and data.max() <= _NINE:
        found = _floats(data, offsets, has_groups)
    if found is None:
        form = _GROUPED if has_groups else _PLAIN
        shown = texts.to_pylist()
        found = numpy.array(
            [float(text.replace(",", "")) if form.fullmatch(text) else math.nan for text in shown]
        )
    return usual(found)


def numbers_within(texts: Any, before: bytes, after: bytes) -> Array | None:
    """The numbers in texts that all have the same before and behind them; None where one has not."""
    import numpy

    data, offsets = _characters(texts)
    if not _stand_within(data, offsets, before, after):
        return None
    is_number = numpy.ones(len(data), bool)
    for places, _ in _places_around(offsets, before, after):
        is_number[places] = False
    plain = data[is_number]
    if plain.min() < _MINUS or plain.max() > _NINE:
        return None
    size = len(before) + len(after)
    found = _floats(plain, offsets - size * numpy.arange(len(offsets)), has_groups=False)
    return found if found is not None and numpy.abs(found).max() < _MOST else None


def are_numbers_within(texts: Any, before: bytes, after: bytes) -> bool:
    """Whether all texts have the same before and behind digits, among which all have a point or none has."""
    import numpy

    data, offsets = _characters(texts)
    if not _stand_within(data, offsets, before, after):
        return False
    sizes = offsets[1:] - offsets[:-1] - len(before) - len(after)
    points = (data == _POINT).nonzero()[0]
    if len(points):
        if len(points) != len(sizes) or (points < offsets[:-1]).any() or (points >= offsets[1:]).any():
            return False
        sizes = sizes - 1
    are_usual = sizes.min() > 0 and sizes.max() < _FEW_DIGITS
    return bool(are_usual and numpy.count_nonzero(data - _ZERO <= 9) == sizes.sum())


def _stand_within(data: Array, offsets: Array, before: bytes, after: bytes) -> bool:
    """Whether all cells begin and end so, and have something between."""
    if (offsets[1:] - offsets[:-1]).min() <= len(before) + len(after):
        return False
    return all((data[places] == one).all() for places, one in _places_around(offsets, before, after))


def _places_around(offsets: Array, before: bytes, after: bytes) -> Iterator[tuple[Array, int]]:
    """Where in all cells each character stands that is before or behind what they have between."""
    for at, one in enumerate(before):
        yield offsets[:-1] + at, one
    for at, one in enumerate(after, -len(after)):
        yield offsets[1:] + at, one


def _floats(data: Array, offsets: Array, has_groups: bool) -> Array | None:
    """The numbers in the cells, read as lines of a table; None where one is none."""
    import numpy
    import pyarrow
    from pyarrow import csv

    commas = (data == _COMMA).nonzero()[0]
    if len(commas) and not (has_groups and _are_of_groups(data, commas, offsets)):
        return None
    lines = numpy.full(len(data) + len(offsets) - 1, _LINE_END, numpy.uint8)
    is_text = numpy.ones(len(lines), bool)
    is_text[offsets[1:] + numpy.arange(len(offsets) - 1)] = False
    lines[is_text] = data
    if len(commas):
        lines = lines[lines != _COMMA]
    try:
        table = csv.read_csv(
            pyarrow.py_buffer(lines),
            csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=["0"]),
            csv.ParseOptions(ignore_empty_lines=False),
            csv.ConvertOptions(column_types={"0": pyarrow.float64()}, null_values=[]),
        )
    except pyarrow.ArrowInvalid:
        return None
    return values(table.column(0).chunk(0)) if table.num_rows == len(offsets) - 1 else None


def are_alike(cells: Any) -> bool:
    """Whether all cells have the same text."""
    data, offsets = _characters(cells)
    size = int(offsets[1])
    if not size:
        return not len(data)
    return bool((offsets[1:] - offsets[:-1] == size).all() and (data.reshape(-1, size) == data[:size]).all())


def repeat(cells: Any, step: int) -> bool:
    """Whether each text is that so many rows before."""
    data, offsets = _characters(cells)
    sizes = offsets[1:] - offsets[:-1]
    size = int(offsets[step])
    return bool((sizes[step:] == sizes[:-step]).all() and (data[size:] == data[: len(data) - size]).all())


def letters(texts: Any) -> Array | None:
    """The characters of each text, a row each; None where they are not of one length."""
    data, offsets = _characters(texts)
    size = int(offsets[1]) if len(offsets) > 1 else 0
    is_even = bool(size) and bool((offsets[1:] - offsets[:-1] == size).all())
    return data.reshape(-1, size) if is_even else None


def begin_with(texts: Any, some: bytes) -> bool:
    """Whether each text that is not empty begins with one of these characters."""
    data, offsets = _characters(texts)
    return bool(_are_among(data[offsets[:-1][offsets[1:] > offsets[:-1]]], some).all())


def have(texts: Any, character: bytes) -> bool:
    """Whether a text has it."""
    return bool((_characters(texts)[0] == character[0]).any())


def may_begin_with_letters(texts: Any) -> bool:
    """Whether a text does; numbers do not."""
    data, offsets = _characters(texts)
    begins = offsets[:-1][offsets[1:] > offsets[:-1]]
    return bool((data[begins] > _NINE).any())  # all letters are behind the digits


def _characters(cells: Any) -> tuple[Array, Array]:
    """Those of all text cells, and where each cell begins in them and the last ends."""
    import numpy

    offsets = numpy.frombuffer(cells.buffers()[1], numpy.int32)[cells.offset : cells.offset + len(cells) + 1]
    data = numpy.frombuffer(cells.buffers()[2] or b"", numpy.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def _are_of_groups(data: Array, commas: Array, offsets: Array) -> bool:
    """Whether each comma comes before three digits, and the first of a cell behind one to three."""
    import numpy

    cells = offsets.searchsorted(commas, "right")
    begins, ends = offsets[cells - 1], offsets[cells]  # of the cell of each
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
    """Arrow's numbers as an array; none of them is missing."""
    import numpy

    kind = {"int32": numpy.int32, "double": numpy.float64}[str(cells.type)]
    return numpy.frombuffer(cells.buffers()[1], kind, len(cells), cells.offset * kind().itemsize)


def usual(values: Array) -> Array:
    """The values, NaN instead of those that are no finite numbers from zero on."""
    import numpy

    if values.min(initial=0) >= 0 and values.max(initial=0) < _MOST:  # False where there is a NaN
        return values
    return numpy.where((values >= 0) & (values < _MOST), values, numpy.nan)
