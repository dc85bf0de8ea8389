"""Fields of a protobuf message without its schema: enough for XPlane files, without a generated module."""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAX_SHIFT = 63


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of every field: varints as unsigned numbers, all others as bytes. Raises ValueError
    where the message is cut off or none."""
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"no protobuf message: a field of kind {kind}")
        if at + size > end:
            raise ValueError("the message is cut off")
        yield number, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift <= MAX_SHIFT and at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    raise ValueError("the message is cut off")


def text(value: int | memoryview) -> str:
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")


def double(value: int | memoryview) -> float:
    return float(value) if isinstance(value, int) else float(struct.unpack("<d", value)[0])
