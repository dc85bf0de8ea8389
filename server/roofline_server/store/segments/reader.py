"""Reads segments back as tables, and puts tables on the server's clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...clock import NodeClock
from ...records import ABSENT, Frame, Ints, Table, columns, concatenate, rows, take
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
        wanted = None if columns is None else frozenset(columns)
        return [piece for s in segments if s.rows for piece in self._pieces(s, wanted)]

    def _pieces(self, segment: Segment, wanted: frozenset[str] | None) -> list[Table]:
        with pq.ParquetFile(self._root / segment.path) as file:
            names = [name for name in file.schema_arrow.names if wanted is None or name in wanted]
            arrow = file.read(names, use_threads=segment.rows > ROWS_FOR_THREADS)
            return [plain(batch) for batch in arrow.to_batches()]

    def close(self) -> None:
        """Let go."""


def plain(arrow: Any) -> Table:
    """The columns of a record batch; what is null in one is absent."""
    return {name: _plain(column) for name, column in zip(arrow.schema.names, arrow.columns, strict=True)}


def _plain(column: Any) -> Any:
    if column.null_count and not pa.types.is_floating(column.type):
        column = column.fill_null(ABSENT if pa.types.is_integer(column.type) else "")
    return column.to_numpy(zero_copy_only=False)


def grouped_by_rank(tables: Sequence[Table]) -> Table:
    """All rows, by rank, and of each rank in order of the tables."""
    some = [table for table in tables if rows(table)]
    edges = [_edges(table["rank"]) for table in some]
    if sum(map(len, edges)) > MOST_RUNS:
        table = concatenate(some)
        return take(table, np.argsort(table["rank"], kind="stable"))
    runs = [
        (int(table["rank"][begin]), {name: column[begin:end] for name, column in table.items()})
        for table, at in zip(some, edges, strict=True)
        for begin, end in pairwise(at)
    ]
    return concatenate([run for _, run in sorted(runs, key=itemgetter(0))])


def _edges(ranks: Ints) -> list[int]:
    """Where rows of another rank begin, and the end."""
    return [0, *(np.flatnonzero(ranks[1:] != ranks[:-1]) + 1).tolist(), len(ranks)]


def distinct(numbers: Ints) -> list[int]:
    """The values of a column of ranks or nodes, upwards."""
    # Most rows are of the rank of the row before: much cheaper than np.unique, which looks up every one.
    return sorted({*numbers[:1].tolist(), *numbers[1:][numbers[1:] != numbers[:-1]].tolist()})


def by_dataset(frames: Iterable[Frame]) -> dict[str, Table]:
    """Frames of one job put together by dataset."""
    # Frames of one schema share one tuple of metrics: its identity stands for it, hashing it would be slow.
    alike: dict[tuple[str, int], list[Frame]] = {}
    for frame in frames:
        alike.setdefault((frame.dataset, id(frame.metrics)), []).append(frame)
    parts: dict[str, list[Table]] = {}
    for (dataset, _), group in alike.items():
        table, metrics = concatenate([frame.base for frame in group]), group[0].metrics
        if metrics:
            values = np.concatenate([frame.values for frame in group if frame.values is not None], axis=1)
            table = {**table, **columns(metrics, values)}
        parts.setdefault(dataset, []).append(table)
    return {dataset: concatenate(tables) for dataset, tables in parts.items()}


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
