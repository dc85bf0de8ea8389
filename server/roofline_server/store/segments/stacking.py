"""Tables put together a few rows at a time.

Touching new memory costs more than decoding data into it. So files are read in such small pieces that the
allocator reuses the memory of the last piece for the next, and only the columns of the whole table are new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...records import Ints, Table, absent, constant, is_constant, rows, take

FEW_ROWS = 1 << 14  # whose columns take less than `allocator.LARGE_BYTES` each

_Contents = tuple[tuple[int, int | bytes | None], ...]  # of each source its rows, and a value or a digest


class RowSource(NamedTuple):
    """Rows that become part of a table."""

    rows: int
    kinds: Mapping[str, np.dtype[Any]]  # of all columns
    same: Mapping[str, int]  # of these the ones with one value in all rows
    digests: Mapping[str, bytes]  # of some of the others: equal where the columns are
    # Some of the others, row by row. Where these are fewer rows nothing of the source counts.
    pieces: Callable[[Sequence[str]], Iterable[Table]]


def source_of(table: Table, digested: Collection[str] = ()) -> RowSource:
    """All rows of a table. digested: of which of its columns there should be digests."""
    same = {name: int(column[0]) for name, column in table.items() if is_constant(column)}
    digests = {
        name: sha256(table[name].tobytes()).digest()
        for name in digested
        if name in table.keys() - same.keys()
    }
    kinds = {name: column.dtype for name, column in table.items()}
    return RowSource(rows(table), kinds, same, digests, lambda names: [table])


def stacked(sources: Sequence[RowSource], wanted: Collection[str] | None = None) -> Table:
    """All rows in order; a column that a source lacks is absent there (NaN, ABSENT). wanted: only these
    columns."""
    most = sum(source.rows for source in sources)
    names = columns_of(sources) if wanted is None else wanted
    table = {name: _column(name, sources, most) for name in names}
    varying = {name: column for name, column in table.items() if not is_constant(column)}
    count = 0
    for source in sources:
        end = count + source.rows
        if _is_filled({name: column[count:end] for name, column in varying.items()}, source):
            count = end
    return {name: column[:count] for name, column in table.items()} if count else {}


def columns_of(sources: Sequence[RowSource]) -> list[str]:
    """Their names."""
    return list(dict.fromkeys(name for source in sources for name in source.kinds))


def _column(name: str, sources: Sequence[RowSource], count: int) -> NDArray[Any]:
    """For what these sources have of it: a constant where it is one in all of them, else to be filled."""
    values = {source.same.get(name) for source in sources}
    if len(values) == 1 and (value := values.pop()) is not None:
        return constant(value, count)
    return np.empty(count, np.result_type(*(s.kinds[name] for s in sources if name in s.kinds)))


def _is_filled(columns: Table, source: RowSource) -> bool:
    """Whether a source has brought all of its rows. columns: to be written to."""
    for name, column in columns.items():
        if name in source.same:
            column[:] = source.same[name]
        elif name not in source.kinds:
            column[:] = absent(column.dtype, len(column))
    names = [name for name in columns if name in source.kinds and name not in source.same]
    if not names:
        return True
    count = 0
    for piece in source.pieces(names):
        end = count + rows(piece)
        for name in names:
            columns[name][count:end] = piece[name]
        count = end
    return count == source.rows


# -- by rank -------------------------------------------------------------------------------------------------


class ByRank:
    """Puts tables together by rank. What several of them have in common, who, which step and when, is read,
    sorted and kept once: it is known by the digests of what it is made of."""

    def __init__(self) -> None:
        self._orders: dict[_Contents, Ints | None] = {}  # by the ranks
        self._columns: dict[tuple[_Contents, _Contents], NDArray[Any]] = {}  # by the ranks and the column

    @property
    def orders(self) -> list[Ints]:
        """What is kept in addition to the columns of tables."""
        return [order for order in list(self._orders.values()) if order is not None]

    def table(self, sources: Sequence[RowSource]) -> Table:
        """All rows by rank, and of each rank in order of the sources; not to be written to."""
        if not sources:
            return {}
        names, ranks = columns_of(sources), _contents("rank", sources)
        keys = {name: (ranks, made) for name in names if ranks and (made := _contents(name, sources))}
        known = {name: self._columns[key] for name, key in keys.items() if key in self._columns}
        left = [name for name in names if name not in known]
        table = stacked(sources, left)
        if left and rows(table) < sum(source.rows for source in sources):
            return grouped_by_rank(stacked(sources))  # a file is damaged: nothing of it counts
        order = order_by_rank(table["rank"]) if "rank" in left else self._orders[ranks]
        if order is not None:
            table = take(table, order)
        self._orders[ranks] = order
        self._columns |= {keys[name]: column for name, column in table.items() if name in keys}
        return {name: known[name] if name in known else table[name] for name in names}


def grouped_by_rank(table: Table) -> Table:
    """The rows by rank, and of each rank in their order."""
    order = order_by_rank(table["rank"]) if rows(table) else None
    return table if order is None else take(table, order)


def order_by_rank(rank: Ints) -> Ints | None:
    """None: they are in order."""
    return np.argsort(rank, kind="stable") if (rank[1:] < rank[:-1]).any() else None


def _contents(name: str, sources: Sequence[RowSource]) -> _Contents:
    """What is equal where columns are; empty: it is not known."""
    found = [(source.rows, source.same.get(name, source.digests.get(name))) for source in sources]
    return () if any(content is None for _, content in found) else tuple(found)
