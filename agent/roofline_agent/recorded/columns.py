"""Lines of a table as columns, cut out of a whole block of text at once, and columns of text as numbers.

What most blocks hold, plain cells, is handled by a few calls of C for all of them: cell by cell in Python
takes ten times as long.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Sequence

from .quick_json import loads

_PLAIN = re.compile(r"[0-9.|]*")
_GROUPED = re.compile(r"0*\.?0*|0{1,3}(?:,000)+(?:\.0+)?")
_ANY_DIGIT = {ord(digit): "0" for digit in "123456789"}
_MOST = 1e300
_HIDDEN = "\x01"  # instead of a separator within quotes


def columns(lines: str, width: int, separator: str) -> list[list[str]] | None:
    """The columns of lines that all have `width` cells; None where one has not, or where that is not sure.
    lines: whole ones, without the end of the last; quotes may stand around cells."""
    if '"' not in lines:
        return _split(lines, width, separator)
    plain = _unquoted(lines, separator)
    if plain is None:
        return _parsed(lines, width, separator)
    found = _split(plain, width, separator)
    for at, column in enumerate(found or ()):
        if found is not None and _HIDDEN in "".join(column):
            found[at] = [cell.replace(_HIDDEN, separator) for cell in column]
    return found


def _split(lines: str, width: int, separator: str) -> list[list[str]] | None:
    # Line ends become cells. With all of them where they should be, so is everything else.
    count, step = lines.count("\n") + 1, width + 1
    flat = lines.replace("\n", f"{separator}\n{separator}").split(separator)
    if len(flat) != step * count - 1 or flat[width::step] != ["\n"] * (count - 1):
        return None
    return [flat[at::step] for at in range(width)]


def _unquoted(lines: str, separator: str) -> str | None:
    """The lines without the quotes around whole cells, separators in those hidden; None where quotes stand
    elsewhere, too."""
    parts = lines.split('"')
    outside, inside = parts[::2], "".join(parts[1::2])
    if len(parts) % 2 == 0 or '""' in lines or _HIDDEN in lines or "\n" in inside:
        return None
    before, behind = {one[-1:] for one in outside[1:-1]}, {one[:1] for one in outside[1:-1]}
    before.add(outside[0][-1:] or "\n")
    behind.add(outside[-1][:1] or "\n")
    if not (before | behind) <= {separator, "\n"}:
        return None
    parts[1::2] = [part.replace(separator, _HIDDEN) for part in parts[1::2]]
    return "".join(parts)


def quoted_columns(lines: str, width: int) -> list[list[str]] | None:
    """The same of lines in which quotes stand around all cells, and commas between them."""
    count = lines.count("\n") + 1
    if lines.count('"') != 2 * width * count:
        is_quoted = lines[:1] == lines[-1:] == '"' and lines.count('"\n"') == count - 1
        return _parsed(lines, width, ",") if is_quoted else None  # some cell has quotes in it
    # Every second piece is a cell; the others must be what stands between cells and rows.
    flat = lines.split('"')
    between = ([","] * (width - 1) + ["\n"]) * count
    if flat[0] or flat[-1] or flat[2:-1:2] != between[:-1]:
        return None
    return [flat[1 + 2 * at :: 2 * width] for at in range(width)]


def _parsed(lines: str, width: int, separator: str) -> list[list[str]] | None:
    """The same for lines with quotes around some cells, or in them."""
    each = lines.split("\n")
    if each[-1].count('"') % 2:
        return None  # open: in another line that would join it with the next
    try:
        rows = list(csv.reader(each, delimiter=separator, skipinitialspace=True))
    except csv.Error:
        return None
    if len(rows) != len(each) or set(map(len, rows)) != {width}:
        return None
    return [list(column) for column in zip(*rows, strict=True)]


def numbers(cells: Sequence[str], has_groups: bool = False) -> list[float] | None:
    """Plain numbers, without sign or exponent; has_groups: commas may stand between groups of three digits.
    None where a cell is anything else."""
    joined = "|".join(cells)
    if has_groups and "," in joined:
        # A column has thousands of numbers and few shapes ("0,000.00"), which alone are looked at.
        shapes = set(joined.translate(_ANY_DIGIT).split("|"))
        if not all(map(_GROUPED.fullmatch, shapes)):
            return None
        joined = joined.replace(",", "")
    if not _PLAIN.fullmatch(joined) or not joined:
        return None
    try:
        # As values of JSON they are read in a half or a fifth of the time of `float`, with the same result.
        return array("d", loads(f"[{joined.replace('|', ',')}]")).tolist()
    except (ValueError, OverflowError):
        return _floats(joined.split("|"))


def _floats(cells: Sequence[str]) -> list[float] | None:
    """Of digits and points: "007", "5." and ".5" are numbers, too."""
    try:
        found = list(map(float, cells))
    except ValueError:  # an empty cell, or two points
        return None
    return found if max(found) < _MOST else None
