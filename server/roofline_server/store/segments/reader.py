"""Reads segments back as tables, and puts tables on the server's clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...clock import NodeClock
from ...records import ABSENT, Ints, Table, concatenate, rows, take
from .files import Segment

# The rows of a rank follow each other in each segment. So few stretches are put together at half the cost of
# sorting their rows.
MOST_RUNS = 4096
ROWS_FOR_THREADS = 20_000  # in a file of fewer, handing its columns to threads costs more than reading them


class Reader:
    """Reads the segments of one data directory. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, segments: Iterable[Segment], columns: Sequence[str] | None = None) -> Table:
        """All rows of these segments of one dataset, not to be written to; a column some of them lack is
        absent there.

        columns: only these, as far as there are any; at least one must be.
        """
        return concatenate(self.pieces(segments, columns))

    def pieces(self, segments: Iterable[Segment], columns: Sequence[str] | None = None) -> list[Table]:
        """The same as tables, one after the other, each with the columns that it has."""
        found: list[Table] = []
        for segment in segments:
            if segment.rows:
                with pq.ParquetFile(self._root / segment.path) as file:
                    names = _present(file, columns)
                    arrow = file.read(names, use_threads=segment.rows > ROWS_FOR_THREADS)
                    found.extend(plain(batch) for batch in arrow.to_batches())
        return found


def batches(
    path: Path, most_rows: int, columns: Collection[str] | None = None, use_threads: bool = True
) -> Iterator[Table]:
    """The rows of a file in tables of at most so many, one of them in memory at a time.

    columns: only these, as far as there are any.
    """
    with pq.ParquetFile(path) as file:
        names = _present(file, columns)
        for batch in file.iter_batches(batch_size=most_rows, columns=names, use_threads=use_threads):
            yield plain(batch)


def _present(file: pq.ParquetFile, columns: Collection[str] | None) -> list[str]:
    wanted = None if columns is None else frozenset(columns)
    return [name for name in file.schema_arrow.names if wanted is None or name in wanted]


def plain(arrow: Any) -> Table:
    """The columns of a record batch; what is null in one is absent."""
    table: Table = {}
    for name, column in zip(arrow.schema.names, arrow.columns, strict=True):
        if column.null_count and not pa.types.is_floating(column.type):
            column = column.fill_null(ABSENT if pa.types.is_integer(column.type) else "")
        table[name] = column.to_numpy(zero_copy_only=False)
    return table


def grouped_by_rank(tables: Sequence[Table]) -> Table:
    """All rows, by rank, and of each rank in order of the tables."""
    some = [table for table in tables if rows(table)]
    # Where rows of another rank begin, and the end.
    edges = [
        [0, *(np.flatnonzero(np.diff(table["rank"])) + 1).tolist(), len(table["rank"])] for table in some
    ]
    if sum(map(len, edges)) > MOST_RUNS:
        table = concatenate(some)
        return take(table, np.argsort(table["rank"], kind="stable"))
    runs = [
        (int(table["rank"][begin]), {name: column[begin:end] for name, column in table.items()})
        for table, at in zip(some, edges, strict=True)
        for begin, end in pairwise(at)
    ]
    return concatenate([run for _, run in sorted(runs, key=itemgetter(0))])


def distinct(ids: Ints) -> list[int]:
    """The values of a column of ranks or nodes, upwards."""
    # Most rows are of the rank of the row before: much cheaper than np.unique, which looks up every one.
    return sorted({*ids[:1].tolist(), *ids[1:][ids[1:] != ids[:-1]].tolist()})


def on_server_clock(table: Table, clocks: Mapping[int, NodeClock]) -> Table:
    """The table with time_ns and end_ns moved from each row's node's clock to the server's."""
    if not rows(table):
        return table
    moved, nodes = dict(table), distinct(table["node"])
    for name in ("time_ns", "end_ns"):
        if name in table:
            column = table[name].astype(np.int64)
            for node in nodes:
                mine = table["node"] == node if len(nodes) > 1 else slice(None)
                column[mine] = clocks[node].to_server(column[mine])
            moved[name] = column
    return moved
