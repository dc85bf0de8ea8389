"""Whether the log of an SQLite database (its -wal file) is damaged in the middle.

SQLite takes the first frame that is not as it was written for the end of the log, and silently drops what
follows. After a crash that is the last transaction at most; complete transactions of the same log after it
were durable, and are lost. Format: https://www.sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import logging
import sqlite3
import struct
from pathlib import Path
from typing import NamedTuple

log = logging.getLogger(__name__)

HEADER, FRAME = 32, 24  # bytes
_MAGIC = 0x377F0682  # its last bit: checksums are of big-endian words


class LogDamage(NamedTuple):
    """lost: transactions behind the first damaged frame.

    last_is_broken: the frame that ends the last transaction is there and is not as it should be. It is
    damaged, or whoever wrote it was killed in the middle of it: then nobody was told that the transaction is
    durable.
    """

    lost: int = 0
    last_is_broken: bool = False


def warn_of_damaged_logs(root: Path) -> None:
    """Log what is wrong with the logs of a data directory. To be called before SQLite opens them."""
    for path in (root / "catalog.db-wal", root / "inbox.db-wal"):
        damage = damage_of(path)
        if damage.lost:
            log.error("%s is damaged: %d transactions that were durable are lost", path, damage.lost)
        if damage.last_is_broken:
            log.warning("%s is damaged, or the server was killed amid its last transaction", path)


def lost_transactions(path: Path) -> int:
    """See `LogDamage.lost`."""
    return damage_of(path).lost


def damage_of(path: Path) -> LogDamage:
    """Nothing where the log is whole or there is none. To be called before SQLite opens the database, which
    starts the log again. Raises OSError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return LogDamage()
    if len(data) < HEADER + FRAME:
        return LogDamage()
    magic, _, page_bytes = struct.unpack(">III", data[:12])
    if magic & ~1 != _MAGIC or page_bytes < 512:
        return LogDamage()
    salts, order = data[16:24], ">" if magic & 1 else "<"
    sums = _checksum(data[:24], (0, 0), order)
    lost, is_broken = 0, False
    is_sound = sums == struct.unpack(">II", data[24:32])
    if not is_sound:
        salts = data[HEADER + 8 : HEADER + 16]  # those of the header may be what is damaged
    for at in range(HEADER, len(data) - FRAME - page_bytes + 1, FRAME + page_bytes):
        header = data[at : at + FRAME]
        if header[8:16] != salts:
            is_sound = False  # of an earlier turn of the log, unless others of this turn follow
            continue
        is_last = header[4:8] != bytes(4)  # of a transaction
        if is_sound:
            sums = _checksum(
                data[at + FRAME : at + FRAME + page_bytes], _checksum(header[:8], sums, order), order
            )
            is_sound = sums == struct.unpack(">II", header[16:24])
            # A crash may have cut the transaction of the first damaged frame, which then is the last one.
            is_broken = is_last and not is_sound
            continue
        lost += is_last
    return LogDamage(lost, is_broken and not lost)


def _checksum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    for one, two in struct.iter_unpack(f"{order}II", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second


def opened_to_read(path: Path) -> sqlite3.Connection:
    """A database of which nothing is to change. Even to read, SQLite makes a log next to one that has none,
    unless it is told that nobody writes: who does has a log."""
    how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)
