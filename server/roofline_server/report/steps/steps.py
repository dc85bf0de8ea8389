"""The table of steps: one row per rank and step, with what was counted in it. Nothing is averaged here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...chunks import Chunk, Column, split
from ...records import ABSENT, Floats, Ints, Table, rows, take
from ...store.view import JobView
from ..evidence.collectives import without_unknown
from ..evidence.gathering import check
from ..evidence.ranks import NEEDED as OF_REPORT
from ..evidence.sampled import with_filled
from ..evidence.tables import by_rank, unite, within
from ..questions import Steps
from ..ranks.members import chosen
from .columns import ORDER, absent, columns_of, known, place
from .notes import write_notes

NEEDED: Mapping[str, Sequence[str] | None] = {
    **{
        name: OF_REPORT[name]
        for name in ("steps", "steps_kernels", "steps_process", "steps_tcp", "steps_perf")
    },
    "steps_spans": None,
}
KEYS = ("window", "step", "begin_ns", "end_ns")
NOT_COUNTED = frozenset((*KEYS, "rank", "start_ns", "samples"))
COUNTED = ("steps_process", "steps_tcp", "steps_perf")  # tables with a column of how many samples lay inside


def steps_table(view: JobView, ranks: Sequence[str], steps: Steps, mode: str) -> Iterator[Chunk]:
    """The rows by rank, and of each in order of time; every chunk has the same columns, each with some value.

    ranks: "worker:0"; none: all. mode: how the job steps, as its report says. Raises BadRequest for a range
    that cannot be and UnknownRank.
    """
    numbers = chosen(view, ranks)
    tables = rank_tables(view, numbers, steps, mode)
    if not steps.is_bounded:
        tables += time_tables(view, numbers)
    found: dict[str, Column] = {}
    for number, table in tables:
        for column in columns_of(view, number, table, mode):
            if column.name not in found and known(column).any():
                found[column.name] = column
    notes = write_notes(view, numbers, tables, steps, mode)
    kinds = sorted((c._replace(values=c.values[:0]) for c in found.values()), key=place)
    if not kinds:
        yield Chunk("steps", [Column(name, np.zeros(0, np.int64)) for name in ORDER[:5]], notes)
    for number, table in tables:
        mine = {column.name: column for column in columns_of(view, number, table, mode)}
        whole = [mine.get(kind.name) or absent(kind, rows(table)) for kind in kinds]
        yield from split(Chunk("steps", whole, notes))
        notes = []


def rank_tables(view: JobView, numbers: Sequence[int], steps: Steps, mode: str) -> list[tuple[int, Table]]:
    """(rank, its steps as one wide table in order of time) of those of these ranks that have any."""
    check(steps)
    tables = {name: within(table, steps) for name, table in view.steps.items() if name in NEEDED}
    mine = with_filled(view, by_rank(tables), steps)
    stepping = [number for number in numbers if rows(mine.get(number, {}).get("steps", {}))]
    return [(number, _wide(mine[number], mode == "synchronous")) for number in stepping]


def time_tables(view: JobView, numbers: Sequence[int]) -> list[tuple[int, Table]]:
    """For want of steps: (rank, what it counted in windows of equal time) of these ranks that have none."""
    mine = by_rank({name: table for name, table in view.time_windows.items() if name in NEEDED})
    some = [number for number in numbers if rows(mine.get(number, {}).get("steps", {}))]
    return [(number, _wide(mine[number], synchronous=False)) for number in some]


def _wide(mine: Mapping[str, Table], synchronous: bool) -> Table:
    steps = mine["steps"]
    keys = {name: steps[name].astype(np.int64) for name in KEYS}
    wide: Table = {**keys, "rank": steps["rank"], "examples": steps["examples"].astype(np.int64)}
    for name, table in mine.items():
        if name != "steps":
            at = _places(keys, table)
            # In their order: else a sum of counters would differ in its last digit from run to run.
            for column in table:
                if column not in NOT_COUNTED:
                    wide[column] = _spread(table[column], at, rows(steps))
    counting = next((mine[name] for name in COUNTED if name in mine), None)
    if counting is not None:
        wide["samples"] = _spread(counting["samples"], _places(keys, counting), rows(steps))
    wide = without_unknown(wide)
    if synchronous:
        wide = unite(wide)
    return take(wide, np.lexsort((wide["step"], wide["end_ns"], wide["begin_ns"])))


def _places(keys: Table, table: Table) -> Ints:
    """Per row of a step table the row of `keys` with its window; -1: none."""
    count = rows(keys)
    if count == rows(table) and all(np.array_equal(keys[name], table[name]) for name in KEYS):
        return np.arange(count)
    both = [np.concatenate((keys[name], table[name].astype(np.int64))) for name in KEYS]
    order = np.lexsort(both)
    new = np.append(True, np.any([np.diff(column[order]) != 0 for column in both], axis=0))
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(new) - 1
    at = np.full(int(group.max()) + 1, -1)
    at[group[:count]] = np.arange(count)
    places: Ints = at[group[count:]]
    return places


def _spread(column: Floats | Ints, at: Ints, count: int) -> Floats | Ints:
    """The values at their places; of a window that two processes touched that of the one that has it."""
    floats = column.dtype.kind == "f"
    some = (at >= 0) & (~np.isnan(column) if floats else column != ABSENT)
    found = np.full(count, np.nan) if floats else np.full(count, ABSENT, np.int64)
    found[at[some]] = column[some]
    return found
