"""Frames of batches put together as tables: all at once, or some at a time where memory counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ...records import Frame, Table, absent, columns, concatenate, rows


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


def tables_of(parts: Sequence[Sequence[Frame]], most_bytes: int) -> Iterator[Table]:
    """The rows of frames of one dataset in tables of about most_bytes, each of one part, all with the same
    columns."""
    # As above; and frames of one schema have the same columns.
    alike = {(id(frame.metrics), *frame.base): frame for frames in parts for frame in frames}
    kinds = common_columns(frame.table for frame in alike.values())
    for frames in parts:
        held: list[Frame] = []
        size = 0
        for frame in frames:
            own = sum(column.nbytes for column in frame.base.values())
            own += 0 if frame.values is None else frame.values.nbytes
            if held and size + own > most_bytes:
                yield with_columns(kinds, next(iter(by_dataset(held).values())))
                held, size = [], 0
            held.append(frame)
            size += own
        if held:
            yield with_columns(kinds, next(iter(by_dataset(held).values())))


def common_columns(tables: Iterable[Table]) -> dict[str, np.dtype[np.generic]]:
    """The columns that any of these tables has, and of what kind."""
    found: dict[str, np.dtype[np.generic]] = {}
    for table in tables:
        for name, column in table.items():
            found[name] = np.promote_types(found.get(name, column.dtype), column.dtype)
    return found


def with_columns(kinds: Mapping[str, np.dtype[np.generic]], table: Table) -> Table:
    """The table with these columns; those it lacks are absent."""
    found = {}
    for name, kind in kinds.items():
        found[name] = table[name].astype(kind, copy=False) if name in table else absent(kind, rows(table))
    return found
