"""Frames put together some at a time, so that what is made of them takes little memory at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...records import Frame, Table, absent, rows
from .reader import by_dataset


def tables_of(frames: Sequence[Frame], most_bytes: int) -> Iterator[Table]:
    """The rows of frames of one dataset in tables of about most_bytes, all with the same columns."""
    columns = _columns(frames)
    for some in _groups(frames, most_bytes):
        yield with_columns(columns, next(iter(by_dataset(some).values())))


def with_columns(columns: Mapping[str, np.dtype[np.generic]], table: Table) -> Table:
    """The table with these columns; those it lacks are absent."""
    return {
        name: table[name].astype(kind, copy=False) if name in table else absent(kind, rows(table))
        for name, kind in columns.items()
    }


def _columns(frames: Sequence[Frame]) -> dict[str, np.dtype[np.generic]]:
    """All columns there are, and of what kind."""
    # Frames of one schema share one tuple of metrics: its identity stands for it, hashing it would be slow.
    alike = {(id(frame.metrics), *frame.base): frame for frame in frames}
    found: dict[str, np.dtype[np.generic]] = {}
    for frame in alike.values():
        for name, column in frame.table.items():
            found[name] = np.promote_types(found.get(name, column.dtype), column.dtype)
    return found


def _groups(frames: Sequence[Frame], most_bytes: int) -> Iterator[list[Frame]]:
    held: list[Frame] = []
    size = 0
    for frame in frames:
        if held and size + _bytes(frame) > most_bytes:
            yield held
            held, size = [], 0
        held.append(frame)
        size += _bytes(frame)
    if held:
        yield held


def _bytes(frame: Frame) -> int:
    values = 0 if frame.values is None else frame.values.nbytes
    return sum(column.nbytes for column in frame.base.values()) + values
