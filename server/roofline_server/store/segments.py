"""Segments: immutable Parquet files, one dataset of one job each, that appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from ..records import Table, rows

MAX_FILE_NAME = 180
ROWS_PER_GROUP = 1 << 17


class Segment(NamedTuple):
    """A file of the store. Times are the server's; path is relative to the data directory."""

    job: str
    dataset: str
    path: str
    rows: int
    bytes: int
    begin_ns: int
    end_ns: int


def directory_name(job: str) -> str:
    """A directory name for any job id, the same for the same id."""
    name = "job-" + quote(job, safe="") if job else "node"
    if len(name) <= MAX_FILE_NAME:
        return name
    return name[:100] + "-" + hashlib.sha256(job.encode()).hexdigest()[:32]


def write(
    root: Path, job: str, dataset: str, number: int, table: Table, begin_ns: int, end_ns: int
) -> Segment:
    """Write a segment durably: temporary file, fsync, rename, fsync of the directory. Raises OSError."""
    relative = Path("segments", directory_name(job), dataset, f"{number:012d}.parquet")
    final = root / relative
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = final.with_suffix(".tmp")
    try:
        _write_parquet(table, temporary)
        _fsync(temporary)
        size = temporary.stat().st_size
        temporary.rename(final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _fsync(final.parent)
    return Segment(job, dataset, str(relative), rows(table), size, begin_ns, end_ns)


def _write_parquet(table: Table, path: Path) -> None:
    arrow = pa.table({name: pa.array(column) for name, column in table.items()})
    encodings = {
        name: "DELTA_BINARY_PACKED" if column.dtype.kind == "i" else "BYTE_STREAM_SPLIT"
        for name, column in table.items()
        if column.dtype.kind in "if"
    }
    texts = [name for name, column in table.items() if column.dtype.kind == "O"]
    pq.write_table(
        arrow,
        path,
        compression="zstd",
        use_dictionary=texts or False,
        column_encoding=encodings,
        row_group_size=ROWS_PER_GROUP,
    )


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(root: Path, known: set[str]) -> int:
    """Remove files no catalog knows: what a crash left between rename and commit. Returns how many."""
    removed = 0
    for path in (root / "segments").rglob("*"):
        if path.is_file() and str(path.relative_to(root)) not in known:
            path.unlink()
            removed += 1
    return removed
