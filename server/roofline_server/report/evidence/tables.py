"""Step tables of a job cut by rank, by step, by value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...correlate.steps import OWN, union
from ...records import Bools, Table, rows, take
from ..questions import Steps

WHO = ("rank", "window", "step", "end_ns")  # and in whose step


def picked(table: Table, wanted: Bools) -> Table:
    """The wanted rows; the table itself where these are all."""
    return table if wanted.all() else take(table, wanted)


def by_rank(
    tables: Mapping[str, Table], left_out: Callable[[Table], Bools] | None = None
) -> dict[int, dict[str, Table]]:
    """rank -> its rows of each table, views of it; left_out: which rows of a table go, by its columns `WHO`.
    A column that tables share is shared by what is cut of them, too."""
    found: dict[int, dict[str, Table]] = {}
    cuts: list[_Cut] = []
    for name, table in tables.items():
        if not rows(table):
            continue
        cut = next((one for one in cuts if one.fits(table)), None)
        if cut is None:
            table = _in_order(table)
            cuts.append(cut := _Cut(table, left_out))
        for rank, mine in zip(cut.ranks, cut.pieces(table), strict=True):
            found.setdefault(rank, {})[name] = mine
    return found


def _in_order(table: Table) -> Table:
    ranks = table["rank"]
    return take(table, np.argsort(ranks, kind="stable")) if np.any(ranks[1:] < ranks[:-1]) else table


class _Cut:
    """Where tables are cut that have the same columns `WHO`, and which of their rows go. Nothing is copied
    where these are the first of a rank, as they nearly always are."""

    def __init__(self, table: Table, left_out: Callable[[Table], Bools] | None) -> None:
        """table: by rank."""
        self._who = [table.get(name) for name in WHO]
        ranks = table["rank"]
        begins = np.append(0, np.flatnonzero(ranks[1:] != ranks[:-1]) + 1)
        ends = np.append(begins[1:], len(ranks))
        self.ranks: list[int] = ranks[begins].tolist()
        go: Bools = np.zeros(len(ranks), np.bool_) if left_out is None else left_out(table)
        self._stays, at = ~go, np.flatnonzero(go)
        in_between = np.zeros(len(begins), np.bool_)  # of which ranks not only the first rows go
        if len(at):
            gone = np.searchsorted(at, ends) - np.searchsorted(at, begins)
            last = at[np.searchsorted(at, ends) - 1]  # that goes, where any does
            in_between = (gone > 0) & (last != begins + gone - 1)
            begins = begins + np.where(in_between, 0, gone)
        self._in_between: list[bool] = in_between.tolist()
        self._stretches = list(zip(begins.tolist(), ends.tolist(), strict=True))
        self._known: dict[int, tuple[NDArray[Any], list[NDArray[Any]]]] = {}  # by the identity of a column

    def fits(self, table: Table) -> bool:
        """Whether it is that of a table."""
        return all(table.get(name) is column for name, column in zip(WHO, self._who, strict=True))

    def pieces(self, table: Table) -> Iterator[Table]:
        """The rows of each rank, without those that go."""
        for columns, (begin, end), in_between in zip(
            zip(*map(self._of, table.values()), strict=True), self._stretches, self._in_between, strict=True
        ):
            mine = dict(zip(table, columns, strict=True))
            yield take(mine, self._stays[begin:end]) if in_between else mine

    def _of(self, column: NDArray[Any]) -> list[NDArray[Any]]:
        """A view of it for each rank, the same whenever it is asked for."""
        if id(column) not in self._known:
            self._known[id(column)] = column, [column[begin:end] for begin, end in self._stretches]
        return self._known[id(column)][1]


def within(table: Table, steps: Steps) -> Table:
    """The rows of these steps."""
    if not rows(table) or not steps.is_bounded:
        return table
    wanted = np.ones(rows(table), bool)
    if steps.first is not None:
        wanted &= table["step"] >= steps.first
    if steps.last is not None:
        wanted &= table["step"] <= steps.last
    if steps.since_ns is not None:
        wanted &= table["end_ns"] > steps.since_ns
    return picked(table, wanted)


def where(table: Table, column: str, wanted: int) -> Table:
    return picked(table, table[column] == wanted) if rows(table) else table


def unite(table: Table) -> Table:
    """The table with the windows of serving ranks as synchronous steps."""
    if not rows(table) or (own := table["window"] == OWN).all():
        return table
    parts = (take(table, own), union(take(table, ~own)))
    return {name: np.concatenate([part[name] for part in parts]) for name in table}
