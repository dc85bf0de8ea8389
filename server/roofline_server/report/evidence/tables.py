"""Step tables of a job cut by rank, by step, by value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...correlate.steps import OWN, union
from ...records import Bools, Ints, Table, rows, take
from ..questions import Steps


def picked(table: Table, wanted: Bools) -> Table:
    """The wanted rows; the table itself where these are all."""
    return table if wanted.all() else take(table, wanted)


def by_rank(
    tables: Mapping[str, Table], left_out: Callable[[Table], Bools] | None = None
) -> dict[int, dict[str, Table]]:
    """rank -> its rows of each table, views of it; left_out: which rows of a table go. A column that tables
    share is shared by what is cut of them, too."""
    found: dict[int, dict[str, Table]] = {}
    known: list[_Pieces] = []
    for name, table in tables.items():
        if not rows(table):
            continue
        ranks = table["rank"]
        if np.any(ranks[1:] < ranks[:-1]):
            table = take(table, np.argsort(ranks, kind="stable"))
            ranks = table["rank"]
        begins = np.append(0, np.flatnonzero(ranks[1:] != ranks[:-1]) + 1)
        cut = _cut(table, begins, np.append(begins[1:], len(ranks)), left_out, known)
        for rank, mine in zip(ranks[begins].tolist(), cut, strict=True):
            found.setdefault(rank, {})[name] = mine
    return found


class _Pieces:
    """Columns, cut at the borders of the same stretches."""

    def __init__(self, stretches: list[tuple[int, int]]) -> None:
        self.stretches = stretches
        self._cut: dict[int, tuple[NDArray[Any], list[NDArray[Any]]]] = {}

    def of(self, column: NDArray[Any]) -> list[NDArray[Any]]:
        """A view of it for each stretch, the same whenever it is asked for."""
        if id(column) not in self._cut:
            self._cut[id(column)] = column, [column[begin:end] for begin, end in self.stretches]
        return self._cut[id(column)][1]


def _cut(
    table: Table,
    begins: Ints,
    ends: Ints,
    left_out: Callable[[Table], Bools] | None,
    known: list[_Pieces],
) -> Iterator[Table]:
    """The rows of each stretch, without those that go. Nothing is copied where these are the first of it, as
    they nearly always are. known: what was cut of other tables; that of this one is added."""
    go: Bools = np.zeros(len(table["rank"]), np.bool_) if left_out is None else left_out(table)
    whole = begins
    if go.any():
        gone = np.add.reduceat(go, begins, dtype=np.int64)
        so_far = np.append(0, np.cumsum(go))
        leading = so_far[begins + gone] - so_far[begins] == gone
        begins = begins + np.where(leading, gone, 0)
        whole = np.where(leading, begins, -1)
    stretches = list(zip(begins.tolist(), ends.tolist(), strict=True))
    pieces = next((one for one in known if one.stretches == stretches), None)
    if pieces is None:
        known.append(pieces := _Pieces(stretches))
    each = zip(*map(pieces.of, table.values()), strict=True)
    for columns, (begin, end), at in zip(each, stretches, whole.tolist(), strict=True):
        mine = dict(zip(table, columns, strict=True))
        yield mine if at >= 0 else take(mine, ~go[begin:end])


def within(table: Table, steps: Steps) -> Table:
    """The rows of these steps."""
    if not rows(table) or not steps.is_bounded:
        return table
    wanted = np.ones(rows(table), bool)
    if steps.first is not None:
        wanted &= table["step"] >= steps.first
    if steps.last is not None:
        wanted &= table["step"] <= steps.last
    return picked(table, wanted)


def where(table: Table, column: str, wanted: int) -> Table:
    return picked(table, table[column] == wanted) if rows(table) else table


def unite(table: Table) -> Table:
    """The table with the windows of serving ranks as synchronous steps."""
    if not rows(table) or (own := table["window"] == OWN).all():
        return table
    parts = (take(table, own), union(take(table, ~own)))
    return {name: np.concatenate([part[name] for part in parts]) for name in table}
