"""Batches as the inbox keeps them, a row each, and whether a row is as it was written. No I/O."""

from __future__ import annotations

import zlib
from typing import NamedTuple


class Entry(NamedTuple):
    """A batch on its way in. `id` is 0 until it is stored."""

    id: int
    agent: str
    sequence: int
    node: int
    received_ns: int
    data: bytes
    lineage: str = ""


class DamagedRow(NamedTuple):
    """A row that was set apart. Of one that is not as it was written, any of what it says may be wrong."""

    id: int
    agent: str
    sequence: int
    node: int
    is_sound: bool = False  # it is as it was written, but the catalog did not know its node


def checksum(entry: Entry) -> int:
    """CRC-32 of all that a row says but its id."""
    row = f"{entry.agent} {entry.sequence} {entry.node} {entry.received_ns} {entry.lineage} "
    return zlib.crc32(entry.data or b"", zlib.crc32(row.encode("utf-8", "surrogateescape")))


def checked(entry: Entry, crc32: int | None) -> tuple[Entry, bool]:
    """The row, and whether it is as it was written; of one that holds what it cannot, what is left of it.
    crc32: None in rows of earlier inboxes."""
    if _is_possible(entry):
        return entry, crc32 is None or checksum(entry) == crc32
    sequence, node, received_ns = map(_number, entry[2:5])
    return Entry(entry.id, str(entry.agent), sequence, node, received_ns, b""), False


def damaged_row(entry: Entry, crc32: int | None) -> DamagedRow:
    """A row that was set apart."""
    is_sound = crc32 is not None and _is_possible(entry) and checksum(entry) == crc32
    return DamagedRow(entry.id, str(entry.agent), _number(entry.sequence), _number(entry.node), is_sound)


def _is_possible(entry: Entry) -> bool:
    """Whether its fields have their types."""
    numbers = (entry.sequence, entry.node, entry.received_ns)
    texts = isinstance(entry.agent, str) and isinstance(entry.data, bytes)
    return texts and all(isinstance(number, int) for number in numbers)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
