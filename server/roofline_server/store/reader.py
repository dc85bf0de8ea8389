"""Reads segments back as tables. SQL over files lives here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from ..clock import NodeClock
from ..records import ABSENT, Frame, Table, columns, concatenate, rows
from .segments import Segment


class Reader:
    """DuckDB over the segments of one data directory. Thread-safe: every read has a cursor of its own."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._db = duckdb.connect(":memory:")
        self._db.execute("set threads = 2")

    def read(self, segments: Iterable[Segment], columns: Sequence[str] | None = None) -> Table:
        """All rows of these segments of one dataset; a column some of them lack is absent there.

        columns: only these, as far as there are any; at least one must be.
        """
        paths = [str(self._root / s.path) for s in segments if s.rows]
        if not paths:
            return {}
        cursor = self._db.cursor()
        picked = "*" if columns is None else f"columns('^({'|'.join(map(re.escape, columns))})$')"
        query = f"select {picked} from read_parquet($1, union_by_name = true, hive_partitioning = false)"
        found = cursor.execute(query, [paths]).fetchnumpy()
        return {name: _plain(column) for name, column in found.items()}

    def close(self) -> None:
        self._db.close()


def _plain(column: Any) -> Any:
    if not isinstance(column, np.ma.MaskedArray):
        return column
    if column.dtype.kind == "f":
        return column.filled(np.nan)
    if column.dtype.kind == "i":
        return np.ma.filled(column.astype(np.int64), ABSENT)
    return np.asarray(column.filled(""))


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
    moved = dict(table)
    for name in ("time_ns", "end_ns"):
        if name in table:
            column = table[name].astype(np.int64)
            for node in np.unique(table["node"]):
                mine = table["node"] == node
                column[mine] = clocks[int(node)].to_server(column[mine])
            moved[name] = column
    return moved
