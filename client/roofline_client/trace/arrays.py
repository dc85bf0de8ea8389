"""Pieces of tables as arrays: of millions of rows a Python object for each value takes long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from roofline.answers.tables import TableChunk

from ..answers import ABSENT

Column = NDArray[np.int64] | NDArray[np.float64] | list[str]  # ABSENT, NaN and "" are absent


class Arrays(NamedTuple):
    """Some rows of a dataset: columns and their units by name, equally long."""

    columns: Mapping[str, Column]
    units: Mapping[str, str]
    notes: Sequence[str]


def of_message(message: Any) -> Arrays:
    """Raises ValueError when its columns are not as long as it says."""
    columns: dict[str, Column] = {}
    for column in message.columns:
        if column.ints:
            columns[column.name] = np.frombuffer(column.ints, "<i8").astype(np.int64, copy=False)
        elif column.doubles:
            columns[column.name] = np.frombuffer(column.doubles, "<f8").astype(np.float64, copy=False)
        else:
            columns[column.name] = list(column.texts)
        if len(columns[column.name]) != message.rows:
            raise ValueError(f"column {column.name!r} has not one value for each of {message.rows} rows")
    return Arrays(columns, {column.name: column.unit for column in message.columns}, list(message.notes))


def of_chunk(chunk: TableChunk) -> Arrays:
    columns = {column.name: _column(column.values) for column in chunk.columns}
    return Arrays(columns, {column.name: column.unit for column in chunk.columns}, chunk.notes)


def _column(values: Sequence[Any]) -> Column:
    kinds = set(map(type, values))
    if str in kinds:
        return [value or "" for value in values]
    if float in kinds:
        return np.array([np.nan if value is None else value for value in values], np.float64)
    return np.array([ABSENT if value is None else value for value in values], np.int64)


def taken(columns: Mapping[str, Column], first: int, last: int) -> dict[str, Column]:
    """The rows from the first until before the last."""
    return {name: column[first:last] for name, column in columns.items()}


def stretches(columns: Mapping[str, Column], *names: str) -> Iterator[dict[str, Column]]:
    """Rows that follow each other and are the same in these columns of texts."""
    keys = [columns[name] for name in names]
    if all(len(set(key)) == 1 for key in keys):  # nearly always
        yield dict(columns)
        return
    both = list(zip(*keys, strict=True))
    edges = [at for at, (before, after) in enumerate(pairwise(both), 1) if before != after]
    for first, last in pairwise([0, *edges, len(both)] if both else []):
        yield taken(columns, first, last)
