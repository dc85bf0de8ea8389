"""Segments: immutable Parquet files, one dataset of one job each, that appear whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from ...records import Table, rows

MAX_FILE_NAME = 180
ROWS_PER_GROUP = 1 << 17
TAIL_BYTES = 1 << 16  # of a file, read at once: its end is hardly ever longer

# A segment's times are those of the clocks as they were known when it was written: what is learned of a clock
# later moves its rows by less than this. A call that begins in a segment lasts beyond its end by less, too.
CLOCK_REVISION_NS = 60_000_000_000

# How the names of datasets begin that are made of others: step deltas, and what parts counted.
STEPS, PARTS = "steps", "parts_"


def is_derived(dataset: str) -> bool:
    """Whether it is made of other datasets; else it is raw data."""
    return dataset.startswith((STEPS, PARTS))


class Segment(NamedTuple):
    """A file of the store. Times are the server's; path is relative to the data directory."""

    job: str
    dataset: str
    path: str
    rows: int
    bytes: int
    begin_ns: int
    end_ns: int
    footer: int | None = None  # checksum of its end (`footer_checksum`); None: not known

    @property
    def is_derived(self) -> bool:
        """Whether it is made of other datasets; else it is raw data."""
        return is_derived(self.dataset)

    def overlaps(self, begin_ns: int, end_ns: int) -> bool:
        """Whether a row can lie in a stretch of server time, whatever has been learned of its clock since."""
        return self.end_ns >= begin_ns - CLOCK_REVISION_NS and self.begin_ns <= end_ns + CLOCK_REVISION_NS

    @property
    def number(self) -> int:
        """Number of the sealing that brought its first rows: segments of a dataset are read in this order."""
        return int(Path(self.path).stem.partition("-")[0])


def directory_name(job: str) -> str:
    """A directory name for any job id, the same for the same id."""
    name = "job-" + quote(job, safe="") if job else "node"
    if len(name) <= MAX_FILE_NAME:
        return name
    return name[:100] + "-" + hashlib.sha256(job.encode()).hexdigest()[:32]


def path_of(job: str, dataset: str, number: int, first: int | None = None) -> Path:
    """Where a segment lies, relative to the data directory. Arguments: see `write`."""
    # Names in order of the first rows: a segment takes the place of those it stands for.
    name = f"{number:012d}" if first is None else f"{first:012d}-{number:012d}"
    return Path("segments", directory_name(job), dataset, f"{name}.parquet")


class Piece(NamedTuple):
    """Some rows of a segment to be, and the server times they span."""

    table: Table
    begin_ns: int
    end_ns: int


class StoreIdentity(NamedTuple):
    """See `store.identity`; empty where it is not known."""

    store: str = ""
    epoch: str = ""


UNKNOWN_STORE = StoreIdentity()


class Origin(NamedTuple):
    """What a segment says of itself, for when no catalog does: it has all rows of its dataset of the sealings
    from first to last, and no others."""

    store: str = ""
    epoch: str = ""
    job: str = ""
    dataset: str = ""
    first: int = 0
    last: int = 0


ORIGIN = b"roofline"  # key of the metadata of a Parquet file


def origin_of(metadata: Mapping[bytes, bytes] | None) -> Origin | None:
    """What the metadata of a file says; None: nothing, as in earlier files. Raises ValueError."""
    text = (metadata or {}).get(ORIGIN)
    if text is None:
        return None
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("what it says of itself is not as it was written")
    return Origin(**{name: found[name] for name in Origin._fields if name in found})


def write(
    root: Path,
    job: str,
    dataset: str,
    number: int,
    pieces: Iterable[Piece],
    first: int | None = None,
    identity: StoreIdentity = UNKNOWN_STORE,
    last: int | None = None,
) -> Segment:
    """Write a segment durably: temporary file, fsync, rename, fsync of the directory. Raises OSError.

    pieces: at least one, all with the same columns; one of them is in memory at a time.
    first, last: of the sealings whose segments this one stands for, where it is not of this sealing.
    """
    since, until = number if first is None else first, number if last is None else last
    origin = Origin(*identity, job, dataset, since, until)
    relative = path_of(job, dataset, number, first)
    final = root / relative
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = final.with_suffix(".tmp")
    try:
        count, begin_ns, end_ns = _write_parquet(pieces, temporary, origin)
        fsync(temporary)
        size, footer = temporary.stat().st_size, footer_checksum(temporary)
        temporary.rename(final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync(final.parent)
    return Segment(job, dataset, str(relative), count, size, begin_ns, end_ns, footer)


def footer_checksum(path: Path) -> int:
    """CRC-32 of the end of a Parquet file: what describes columns and pages, the length of that (4 bytes),
    and the mark (4 bytes). Raises OSError, ValueError for a file that is too short."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        tail = file.read()
        length = int.from_bytes(tail[-8:-4], "little") + 8
        if not 8 <= length <= size:
            raise ValueError("its end is not that of a Parquet file")
        if length > len(tail):
            file.seek(size - length)
            tail = file.read()
    return zlib.crc32(tail[-length:])


def _write_parquet(pieces: Iterable[Piece], path: Path, origin: Origin) -> tuple[int, int, int]:
    """Rows, and the times they span."""
    count, begins, ends = 0, [], []
    file: pq.ParquetWriter | None = None
    with contextlib.ExitStack() as stack:
        for table, begin_ns, end_ns in pieces:
            if file is None:
                file = stack.enter_context(_writer(table, path, origin))
            file.write_table(_arrow(table), row_group_size=ROWS_PER_GROUP)
            count += rows(table)
            begins.append(begin_ns)
            ends.append(end_ns)
            del table  # before the next is made
    return count, min(begins), max(ends)


def _arrow(table: Table) -> pa.Table:
    columns = {}
    for name, column in table.items():
        columns[name] = pa.array(column, pa.string() if column.dtype.kind == "O" else None)
    return pa.table(columns)


def _writer(table: Table, path: Path, origin: Origin) -> pq.ParquetWriter:
    """For tables with the columns of this one."""
    encodings = {
        name: "DELTA_BINARY_PACKED" if column.dtype.kind == "i" else "BYTE_STREAM_SPLIT"
        for name, column in table.items()
        if column.dtype.kind in "if"
    }
    texts = [name for name, column in table.items() if column.dtype.kind == "O"]
    schema = _arrow({name: column[:0] for name, column in table.items()}).schema
    return pq.ParquetWriter(
        path,
        schema.with_metadata({ORIGIN: json.dumps(origin._asdict()).encode()}),
        compression="zstd",
        use_dictionary=texts or False,
        column_encoding=encodings,
        write_page_checksum=True,
    )


def fsync(path: Path) -> None:
    """Make a file, or the names in a directory, durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
