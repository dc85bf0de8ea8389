"""Step tables of a job cut by rank, by step, by value."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from ...correlate.steps import OWN, union
from ...records import Bools, Table, rows, take
from ..questions import Steps


def picked(table: Table, wanted: Bools) -> Table:
    """The wanted rows; the table itself where these are all."""
    return table if wanted.all() else take(table, wanted)


def by_rank(tables: Mapping[str, Table]) -> dict[int, dict[str, Table]]:
    """rank -> its rows of each table."""
    found: dict[int, dict[str, Table]] = {}
    for name, table in tables.items():
        if not rows(table):
            continue
        ranks = table["rank"]
        if np.any(ranks[1:] < ranks[:-1]):
            table = take(table, np.argsort(ranks, kind="stable"))
            ranks = table["rank"]
        edges = [0, *(np.flatnonzero(ranks[1:] != ranks[:-1]) + 1).tolist(), len(ranks)]
        for begin, end in pairwise(edges):
            rank = int(table["rank"][begin])
            found.setdefault(rank, {})[name] = {n: column[begin:end] for n, column in table.items()}
    return found


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
