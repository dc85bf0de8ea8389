"""Ranks put one after the other in time, so that a lookup by time serves all of them at once.

Numpy takes as long to begin with the rows of one rank as with those of a hundred, and a rank's rows are found
among all only by looking at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..records import Bools, Ints, Table, rows, take

MOST = 2**62  # ns that all ranks together may take, so that sums of two fit into int64


class InARow(NamedTuple):
    """Some ranks, upwards, each of which has a stretch of time of its own."""

    ranks: Ints
    length_ns: int

    def taken(self, table: Table) -> Table:
        """The rows of these ranks, by rank."""
        if not rows(table):
            return table
        rank = table["rank"]
        mine = self.ranks[np.minimum(self.place(rank), len(self.ranks) - 1)] == rank
        if not mine.all():
            table = take(table, mine)
        if (table["rank"][1:] < table["rank"][:-1]).any():
            table = take(table, np.argsort(table["rank"], kind="stable"))
        return table

    def shift(self, rank: Ints) -> Ints:
        """What is added to the times of rows of these ranks."""
        return self.place(rank) * self.length_ns

    def place(self, rank: Ints) -> Ints:
        """From 0, of each row."""
        return np.searchsorted(self.ranks, rank)

    def having(self, some: Ints, rank: Ints) -> Bools:
        """Of rows of ranks, whether their rank is among some."""
        found = np.zeros(len(self.ranks), np.bool_)
        found[self.place(some)] = True
        return found[self.place(rank)]


def in_rows(ranks: Ints, *times: Ints, gap_ns: int = 0) -> Iterator[InARow]:
    """As many of the ranks at once as their times allow, nearly always all. times: all that there are of
    them; gap_ns: between two ranks at least."""
    known = np.unique(ranks)
    least = min(int(column.min()) for column in times if len(column))
    most = max(int(column.max()) for column in times if len(column))
    length = most - least + gap_ns + 2
    at_once = max(1, (MOST - max(abs(least), abs(most))) // length)
    for first in range(0, len(known), at_once):
        yield InARow(known[first : first + at_once], length)
