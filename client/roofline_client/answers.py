"""Pieces of tables from their messages: columns travel as bytes."""

from __future__ import annotations

import math
import sys
from array import array
from typing import Any

from roofline.answers.tables import TableChunk, TableColumn
from roofline.convert import from_message

ABSENT = -(2**63)  # of whole numbers


def chunk(message: Any) -> TableChunk:
    """A piece of a table. Raises ValueError when its columns are not as long as it says."""
    columns = []
    for column in message.columns:
        values: list[Any] = list(column.texts)
        if column.ints:
            values = _unpacked("q", column.ints).tolist()
            if ABSENT in values:
                values = [None if v == ABSENT else v for v in values]
        elif column.doubles:
            values = _unpacked("d", column.doubles).tolist()
            if math.isnan(sum(values)):
                values = [None if math.isnan(v) else v for v in values]
        if len(values) != message.rows:
            raise ValueError(f"column {column.name!r} has {len(values)} values of {message.rows} rows")
        columns.append(from_message(TableColumn, column, values=values))
    return from_message(TableChunk, message, columns=columns)


def _unpacked(kind: str, data: bytes) -> array[Any]:
    values = array(kind)
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
