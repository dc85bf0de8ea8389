"""Reads segments back as tables, and puts tables on the server's clock."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...clock import NodeClock
from ...errors import ServerError
from ...records import ABSENT, Bools, Ints, Table, concatenate, rows
from .files import Segment, footer_checksum
from .stacking import FEW_ROWS, RowSource, stacked

log = logging.getLogger(__name__)


# What comes of bytes that are not those that were written.
_DAMAGE = (OSError, pa.ArrowException, ValueError, TypeError, LookupError, OverflowError, MemoryError)


class DamagedSegment(ServerError):
    """A file is not as it was written."""


class Reader:
    """Reads the segments of one data directory. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.damaged: dict[str, str] = {}  # path -> why it cannot be read, of those that were found to be

    def read(self, segments: Iterable[Segment], columns: Sequence[str] | None = None) -> Table:
        """All rows of these segments of one dataset, not to be written to; a column some of them lack is
        absent there. A damaged segment costs its own rows alone: it is left out, and is in `damaged`.

        columns: only these, as far as there are any; at least one must be.
        """
        return stacked(self.sources(segments, columns))

    def sources(
        self,
        segments: Iterable[Segment],
        columns: Sequence[str] | None = None,
        digested: Collection[str] = (),
    ) -> list[RowSource]:
        """All rows of these segments, to be put together with others. digested: columns of which there should
        be digests."""
        found: list[RowSource] = []
        for segment in segments:
            if segment.rows:
                with self._noting(segment):
                    found.append(self._of(segment, columns, digested))
        return found

    def batches(
        self,
        segment: Segment,
        most_rows: int,
        columns: Collection[str] | None = None,
        use_threads: bool = True,
    ) -> Iterator[Table]:
        """See `batches`; those of a damaged segment end where the damage is."""
        with self._noting(segment):
            yield from batches(self._root, segment, most_rows, columns, use_threads)

    def of_ranks(self, segment: Segment, ranks: Sequence[int], without: str = "") -> Table:
        """The rows of some ranks; none of a damaged segment. Texts that are the same are one object as far as
        they are read together: of millions of rows they are few, and one for each row takes most of the
        time.

        without: rows whose `name` begins so may be left out.
        """
        path = self._root / segment.path
        with self._noting(segment), _opened(path, segment.footer) as file:
            metadata, texts = file.metadata, _texts(file)
            with pq.ParquetFile(
                path, metadata=metadata, read_dictionary=texts, page_checksum_verification=True
            ) as whole:
                found = []
                for batch in whole.iter_batches(FEW_ROWS, _groups_of(metadata, ranks), use_threads=False):
                    mine = np.isin(batch.column("rank").to_numpy(zero_copy_only=False), list(ranks))
                    if without:
                        mine &= ~_begin_so(batch.column("name"), without)
                    found.append(plain(batch.filter(pa.array(mine))))
            return concatenate(found)
        return {}

    def columns(self, segment: Segment) -> Table:
        """The columns that a segment has, without rows; none of a damaged one."""
        with self._noting(segment), _opened(self._root / segment.path, segment.footer) as file:
            return plain(file.schema_arrow.empty_table())
        return {}

    def stamps(self, segments: Iterable[Segment]) -> tuple[tuple[int, int], ...]:
        """Size of each file and when it was written: what was read of it holds as long as these do."""
        return tuple(_stamp(self._root / segment.path) for segment in segments)

    def damaged_of(self, segments: Iterable[Segment]) -> dict[str, int]:
        """Segments, of these, that were found to be damaged or missing: path -> rows."""
        return {segment.path: segment.rows for segment in segments if segment.path in self.damaged}

    @contextlib.contextmanager
    def _noting(self, segment: Segment) -> Iterator[None]:
        """What comes of a damaged segment ends what is done in it, and no more."""
        try:
            yield
        except DamagedSegment as error:
            if segment.path not in self.damaged:
                log.error("%s; its %d rows are left out", error, segment.rows)
            self.damaged[segment.path] = str(error).replace(f"{self._root}/", "")  # readers see it

    def _of(self, segment: Segment, columns: Sequence[str] | None, digested: Collection[str]) -> RowSource:
        """A small file is read now, a large one when its rows are asked for."""
        path = self._root / segment.path
        with _opened(path, segment.footer) as file:
            if file.metadata.num_rows != segment.rows:
                raise ValueError(f"it has {file.metadata.num_rows} rows and had {segment.rows}")
            names = _present(file, columns)
            same = constants(file.metadata, names)
            varying = [name for name in names if name not in same]
            empty = plain(file.schema_arrow.empty_table().select(names))
            kinds = {name: column.dtype for name, column in empty.items()}
            digests = _digests(path, file.metadata, [name for name in varying if name in digested])
            if not varying or segment.rows > FEW_ROWS:
                few = partial(self.batches, segment, FEW_ROWS, use_threads=False)
                return RowSource(segment.rows, kinds, same, digests, lambda some: few(columns=some))
            pieces = [plain(batch) for batch in file.read(varying, use_threads=False).to_batches()]
            return RowSource(segment.rows, kinds, same, digests, lambda some: pieces)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return -1, -1
    return found.st_size, found.st_mtime_ns


@contextlib.contextmanager
def _opened(path: Path, footer: int | None) -> Iterator[pq.ParquetFile]:
    """The checksums of pages are verified, and that of its end if it is known. Raises DamagedSegment."""
    try:
        if footer is not None and footer_checksum(path) != footer:
            raise ValueError("what describes its columns is not as it was written")
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except _DAMAGE as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise DamagedSegment(f"{path} is damaged: {why}") from error


def batches(
    root: Path,
    segment: Segment,
    most_rows: int,
    columns: Collection[str] | None = None,
    use_threads: bool = True,
) -> Iterator[Table]:
    """The rows of a segment in tables of at most so many, one of them in memory at a time.

    columns: only these, as far as there are any. Raises DamagedSegment.
    """
    with _opened(root / segment.path, segment.footer) as file:
        names = _present(file, columns)
        for batch in file.iter_batches(batch_size=most_rows, columns=names, use_threads=use_threads):
            yield plain(batch)


def _present(file: pq.ParquetFile, columns: Collection[str] | None) -> list[str]:
    wanted = None if columns is None else frozenset(columns)
    return [name for name in file.schema_arrow.names if wanted is None or name in wanted]


def constants(metadata: Any, names: Collection[str]) -> dict[str, int]:
    """Of these columns those of integers that are the same in all rows of a file, as its end says: they need
    not be read. (Of floats it does not say whether some are no numbers.)"""
    # `metadata.schema` and the metadata would refer to each other: they would stay, with all that the end of
    # the file says, until Python looks for cycles, which it seldom does.
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    found: dict[str, int] = {}
    for at in range(metadata.num_columns if groups else 0):
        chunks = [group.column(at) for group in groups]
        if chunks[0].physical_type == "INT64" and chunks[0].path_in_schema in names:
            first, *others = (_only_value(chunk.statistics) for chunk in chunks)
            if first is not None and all(other == first for other in others):
                found[chunks[0].path_in_schema] = first
    return found


def _groups_of(metadata: Any, ranks: Sequence[int]) -> list[int]:
    """Which row groups may have rows of these ranks."""
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = map(group.column, range(metadata.num_columns))
        known = next(chunk.statistics for chunk in chunks if chunk.path_in_schema == "rank")
        if known is None or not known.has_min_max or any(known.min <= rank <= known.max for rank in ranks):
            found.append(number)
    return found


def _digests(path: Path, metadata: Any, names: Collection[str]) -> dict[str, bytes]:
    """Of these columns as they are in a file: of what is equal there the rows are equal."""
    found = {name: sha256() for name in names}
    with open(path, "rb") as file:
        for number in range(metadata.num_row_groups):
            for chunk in map(metadata.row_group(number).column, range(metadata.num_columns)):
                if chunk.path_in_schema in found:
                    dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
                    file.seek(chunk.data_page_offset if dictionary is None else dictionary)
                    found[chunk.path_in_schema].update(chunk.physical_type.encode())
                    found[chunk.path_in_schema].update(file.read(chunk.total_compressed_size))
    return {name: digest.digest() for name, digest in found.items()}


def _only_value(statistics: Any) -> int | None:
    """None: there are several, or none, or it is not known."""
    if statistics is None or not statistics.has_min_max or statistics.null_count != 0:
        return None
    return int(statistics.min) if statistics.min == statistics.max else None


def _texts(file: pq.ParquetFile) -> list[str]:
    """Names of the columns of texts."""
    return [field.name for field in file.schema_arrow if pa.types.is_string(field.type)]


def plain(arrow: Any) -> Table:
    """The columns of a record batch, or of a table in one piece; what is null in one is absent."""
    table: Table = {}
    for name, column in zip(arrow.schema.names, arrow.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            table[name] = _of_dictionary(column)
            continue
        if column.null_count and not pa.types.is_floating(column.type):
            column = column.fill_null(ABSENT if pa.types.is_integer(column.type) else "")
        table[name] = column.to_numpy(zero_copy_only=False)
    return table


def _begin_so(texts: Any, prefix: str) -> Bools:
    """Of a column of texts that are kept once each. What is null does not."""
    begins = [text.startswith(prefix) for text in texts.dictionary.to_pylist()]
    found: Bools = np.array([*begins, False])[texts.indices.fill_null(len(begins)).to_numpy()]
    return found


def _of_dictionary(column: Any) -> NDArray[np.object_]:
    """Texts that are kept once each, as objects that rows share."""
    pieces = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = [np.array([], object)]
    for piece in pieces:
        texts = np.array([*piece.dictionary.to_pylist(), ""], object)  # null: the last
        found.append(texts[piece.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)])
    return np.concatenate(found)


def distinct(ids: Ints) -> list[int]:
    """The values of a column of ranks or nodes, upwards."""
    # Most rows are of the rank of the row before: much cheaper than np.unique, which looks up every one.
    return sorted({*ids[:1].tolist(), *ids[1:][ids[1:] != ids[:-1]].tolist()})


def on_server_clock(table: Table, clocks: Mapping[int, NodeClock]) -> Table:
    """The table with time_ns and end_ns moved from each row's node's clock to the server's."""
    if not rows(table):
        return table
    names = [name for name in ("time_ns", "end_ns") if name in table]
    # Rows of a node one behind the other: to look for them in all rows takes long with thousands of nodes.
    order = np.argsort(table["node"], kind="stable")
    times, nodes = np.stack([table[name].astype(np.int64)[order] for name in names]), table["node"][order]
    edges = [0, *(np.flatnonzero(np.diff(nodes)) + 1).tolist(), len(nodes)]
    for begin, end in pairwise(edges):
        times[:, begin:end] = clocks[int(nodes[begin])].to_server(times[:, begin:end])
    moved = dict(table)
    for name, ordered in zip(names, times, strict=True):
        moved[name] = np.empty_like(ordered)
        moved[name][order] = ordered
    return moved
