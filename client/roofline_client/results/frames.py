"""Flat tables and pieces of tables as pandas DataFrames; pandas is loaded by the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.answers.tables import TableChunk, TableColumn

from ..tables.flat import Table

if TYPE_CHECKING:
    import pandas as pd


def frame(table: Table) -> pd.DataFrame:
    """A DataFrame with the units of its columns in `.attrs["units"]`.

    Numbers that can be absent are floats, absent NaN; times in ns are whole and exact, absent <NA>.
    """
    import pandas as pd

    columns = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.columns)
    made = {
        name: _series(name, list(values), name in table.units)
        for name, values in zip(table.columns, columns, strict=True)
    }
    return _with_units(pd.DataFrame(made), table.units)


def of_chunks(chunks: Sequence[TableChunk]) -> pd.DataFrame:
    """All rows of the pieces of one dataset, columns named as in its CSV file (docs/steps.md).

    What a piece has no column for is absent in its rows.
    """
    import pandas as pd

    columns = described(chunks)
    pieces = [({column.name: column.values for column in chunk.columns}, chunk.rows) for chunk in chunks]
    made = {}
    for name, column in columns.items():
        # An absent text is the empty one.
        gap = "" if any(isinstance(value, str) for value in column.values) else None
        values: list[Any] = []
        for piece, rows in pieces:
            values += piece.get(name, [gap] * rows)
        made[name] = _series(name, values, bool(column.unit))
    return _with_units(pd.DataFrame(made), {c.name: c.unit for c in columns.values() if c.unit})


def described(chunks: Sequence[TableChunk]) -> dict[str, TableColumn]:
    """The columns of any of the pieces, by their names."""
    found: dict[str, TableColumn] = {}
    for chunk in chunks:
        for column in chunk.columns:
            found.setdefault(column.name, column)
    return found


def _with_units(made: pd.DataFrame, units: dict[str, str]) -> pd.DataFrame:
    made.attrs["units"] = dict(units)
    return made


def _series(name: str, values: list[Any], number: bool) -> pd.Series:
    import pandas as pd

    # Whole numbers beyond what a float holds exactly, some absent.
    large = None in values and any(isinstance(v, int) and abs(v) > 2**53 for v in values)
    if name.endswith("_ns") or (number and large):
        return pd.Series(values, dtype="Int64" if None in values else "int64")
    if number or (values and all(v is None for v in values)):
        counts = bool(values) and all(isinstance(v, int) for v in values)
        return pd.Series(values, dtype=None if counts else "float64")
    return pd.Series(values, dtype=None if values else "object")
