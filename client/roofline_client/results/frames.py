"""Flat tables and pieces of tables as pandas DataFrames; pandas is loaded by the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..flat import Table
from ..records import TableChunk

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
    """All rows of the pieces of one dataset, columns named as in its CSV file (docs/steps.md)."""
    import pandas as pd

    if not chunks:
        return pd.DataFrame()
    made = {
        column.name: _series(
            column.name, [v for c in chunks for v in c.columns[at].values], bool(column.unit)
        )
        for at, column in enumerate(chunks[0].columns)
    }
    return _with_units(pd.DataFrame(made), {c.name: c.unit for c in chunks[0].columns if c.unit})


def _with_units(made: pd.DataFrame, units: dict[str, str]) -> pd.DataFrame:
    made.attrs["units"] = dict(units)
    return made


def _series(name: str, values: list[Any], number: bool) -> pd.Series:
    import pandas as pd

    if name.endswith("_ns") or (number and _whole_with_gaps(values)):
        return pd.Series(values, dtype="Int64" if None in values else "int64")
    if number or (values and all(v is None for v in values)):
        return pd.Series(values, dtype=None if _counts(values) else "float64")
    return pd.Series(values, dtype=None if values else "object")


def _whole_with_gaps(values: Sequence[Any]) -> bool:
    """Whole numbers beyond what a float holds exactly, some absent."""
    return None in values and any(isinstance(v, int) and abs(v) > 2**53 for v in values)


def _counts(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(v, int) for v in values)
