"""Tables put together of few rows at a time.

To touch new memory costs more than what is decoded into it. So files are read so few rows at a time that the
allocator has the memory of the last ones for the next, and only the columns of the whole table are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...records import Table, absent, constant, is_constant, rows

FEW_ROWS = 1 << 14  # whose columns take less than `allocator.LARGE_BYTES` each


class Source(NamedTuple):
    """Rows that become part of a table."""

    rows: int
    kinds: Mapping[str, np.dtype[Any]]  # of all columns
    same: Mapping[str, int]  # of these the ones with one value in all rows
    pieces: Iterable[Table]  # the others, row by row; with fewer rows all that came of it is left out


def source_of(table: Table) -> Source:
    """All rows of a table."""
    same = {name: int(column[0]) for name, column in table.items() if is_constant(column)}
    kinds = {name: column.dtype for name, column in table.items()}
    return Source(rows(table), kinds, same, [{n: c for n, c in table.items() if n not in same}])


def stacked(sources: Sequence[Source]) -> Table:
    """All rows in order; a column that a source lacks is absent there (NaN, ABSENT)."""
    most = sum(source.rows for source in sources)
    names = dict.fromkeys(name for source in sources for name in source.kinds)
    table = {name: _column(name, sources, most) for name in names}
    count = 0
    for source in sources:
        end = count + source.rows
        varying = {name: column[count:end] for name, column in table.items() if not is_constant(column)}
        if _filled(varying, source):
            count = end
    return {name: column[:count] for name, column in table.items()} if count else {}


def _column(name: str, sources: Sequence[Source], count: int) -> np.ndarray[Any, Any]:
    """For what these sources have of it: a constant where it is one in all of them, else to be filled."""
    values = {source.same.get(name) for source in sources}
    if len(values) == 1 and (value := values.pop()) is not None:
        return constant(value, count)
    return np.empty(count, np.result_type(*(s.kinds[name] for s in sources if name in s.kinds)))


def _filled(columns: Table, source: Source) -> bool:
    """Whether a source has brought all of its rows. columns: to be written to."""
    for name, column in columns.items():
        if name in source.same:
            column[:] = source.same[name]
        elif name not in source.kinds:
            column[:] = absent(column.dtype, len(column))
    count = 0
    for piece in source.pieces:
        for name, column in piece.items():
            columns[name][count : count + len(column)] = column
        count += rows(piece)
    return count == source.rows or source.kinds.keys() == source.same.keys()
