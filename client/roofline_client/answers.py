"""The answers whose messages have another shape than their records: reports and pieces of tables."""

from __future__ import annotations

import math
import sys
from array import array
from typing import Any

from roofline.answers.report import Report, Source
from roofline.answers.tables import TableChunk, TableColumn
from roofline.convert import from_message

ABSENT = -(2**63)  # of whole numbers


def report(message: Any) -> Report:
    """On the wire the sources of a node stand together."""
    sources = [
        from_message(Source, source, host=node.host) for node in message.sources for source in node.sources
    ]
    return from_message(Report, message, sources=sources)


def chunk(c: Any) -> TableChunk:
    """Raises ValueError when its columns are not as long as it says."""
    columns = [_column(x) for x in c.columns]
    for column in columns:
        if len(column.values) != c.rows:
            raise ValueError(f"column {column.name!r} has {len(column.values)} values of {c.rows} rows")
    return from_message(TableChunk, c, columns=columns)


def _column(c: Any) -> TableColumn:
    values: list[Any] = list(c.texts)
    if c.ints:
        values = [None if v == ABSENT else v for v in _unpacked("q", c.ints)]
    elif c.doubles:
        values = [None if math.isnan(v) else v for v in _unpacked("d", c.doubles)]
    return from_message(TableColumn, c, values=values)


def _unpacked(kind: str, data: bytes) -> array[Any]:
    values = array(kind)
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
