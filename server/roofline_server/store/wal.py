"""Whether the log of an SQLite database (its -wal file) is damaged in its midst.

SQLite takes the first frame that is not as it was written for the end of the log, and drops what follows
without a word. After a crash that is the last transaction at most; whole transactions of the same log behind
it were durable, and are lost. Format: https://www.sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import struct
from pathlib import Path

HEADER, FRAME = 32, 24  # bytes
_MAGIC = 0x377F0682  # its last bit: checksums are of big-endian words


def lost_transactions(path: Path) -> int:
    """How many transactions follow the first damaged frame; 0 where the log is whole or there is none.
    To be called before SQLite opens the database, which begins the log anew. Raises OSError."""
    try:
        log = path.read_bytes()
    except FileNotFoundError:
        return 0
    if len(log) < HEADER + FRAME:
        return 0
    magic, _, page_bytes = struct.unpack(">III", log[:12])
    if magic & ~1 != _MAGIC or page_bytes < 512:
        return 0
    salts, order = log[16:24], ">" if magic & 1 else "<"
    sums = _checksum(log[:24], (0, 0), order)
    lost = 0
    is_sound = sums == struct.unpack(">II", log[24:32])
    for at in range(HEADER, len(log) - FRAME - page_bytes + 1, FRAME + page_bytes):
        header = log[at : at + FRAME]
        if header[8:16] != salts:
            if is_sound:
                break  # of an earlier turn of the log
            continue
        is_last = header[4:8] != bytes(4)  # of a transaction
        if is_sound:
            sums = _checksum(
                log[at + FRAME : at + FRAME + page_bytes], _checksum(header[:8], sums, order), order
            )
            is_sound = sums == struct.unpack(">II", header[16:24])
            # A crash may have cut the transaction of the first damaged frame, which then is the last one.
            continue
        lost += is_last
    return lost


def _checksum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    for one, two in struct.iter_unpack(f"{order}II", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
