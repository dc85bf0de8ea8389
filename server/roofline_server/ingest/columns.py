"""Columns and names as they come over the wire, checked. All raise BadBatch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from roofline.limits import MAX_NAME, MAX_TIME_NS

from ..errors import BadBatch
from ..records import Ints


def printable(text: str, what: str, empty: bool = False) -> str:
    if len(text) > MAX_NAME or not text.isprintable() or not (text or empty):
        raise BadBatch(f"{what} {text[:40]!r} must be 1 to {MAX_NAME} printable characters")
    return text


def cut(text: str, most: int) -> str:
    """A text that people alone read, as the catalog keeps it: not every database takes a NUL."""
    return text[:most].replace("\0", "\N{REPLACEMENT CHARACTER}")


def ints(data: bytes, what: str) -> Ints:
    """A column of little-endian int64. Raises BadBatch when the bytes are no whole number of values."""
    if len(data) % 8:
        raise BadBatch(f"{what} has {len(data)} bytes, not a multiple of 8")
    return np.frombuffer(data, "<i8").astype(np.int64, copy=False)


def same_length(columns: dict[str, NDArray[np.generic]], what: str) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise BadBatch(f"{what} has columns of different lengths: {lengths}")


def within(column: Ints, least: int, most: int) -> bool:
    """Whether all of its values are. The methods of an array take twice as long."""
    if not len(column):
        return True
    return bool(np.minimum.reduce(column) >= least and np.maximum.reduce(column) <= most)


def times(column: Ints, what: str) -> Ints:
    if not within(column, 1 - MAX_TIME_NS, MAX_TIME_NS - 1):
        raise BadBatch(f"{what} holds times out of range")
    return column
