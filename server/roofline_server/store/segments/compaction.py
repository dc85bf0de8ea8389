"""Compaction: small segments that follow each other are written as one, so that a long job has few files.

A sealing adds a small file to each dataset, and opening a file costs more than reading its few rows. Segments
are merged when together they have GROWTH times the rows of the largest of them: each row is rewritten at
most once for every time its segment grows so much, and how many segments stay follows the logarithm of the
rows. Rows stay in the order in which they are read without it, so that every answer stays the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from roofline.limits import MAX_TIME_NS

from ...records import Table, concatenate, rows
from .files import ROWS_PER_GROUP, UNKNOWN_STORE, Piece, Segment, StoreIdentity, write
from .frames import common_columns, with_columns
from .reader import DamagedSegment, batches, plain

log = logging.getLogger(__name__)

FEWEST = 8  # segments that are merged
GROWTH = 4
MOST_BYTES = 64 << 20  # of segments that are merged into one, and of all that one sealing reads for it
# Raw data are asked for by time too: of more, much would be read for a few rows. With far fewer each sealing
# of a busy job would leave files behind that are never merged, and each question looks at all there are.
MOST_RAW_ROWS = 16 * ROWS_PER_GROUP
PIECE_BYTES = 32 << 20  # of rows in memory at once
MAX_ROWS = 1 << 62  # none
NEWEST = 1000  # segments of a dataset that are looked at


class Merged(NamedTuple):
    """New segments, and the paths of those they stand for."""

    segments: list[Segment]
    replaced: list[str]


class MergeLimit(NamedTuple):
    """What segments that are merged must keep to together, and of each when it ends."""

    bytes: int
    rows: int
    before_ns: int


class Compaction:
    """What is merged at one sealing: all jobs together are given MOST_BYTES."""

    def __init__(self, root: Path, number: int, identity: StoreIdentity = UNKNOWN_STORE) -> None:
        self._root, self._number, self._identity = root, number, identity
        self._left = MOST_BYTES

    def merge(self, segments: Sequence[Segment], read_ns: int) -> Merged:
        """Merge some segments of a job, given in the order in which they are read.

        read_ns: raw data that end later (server time) are read at every sealing, and so stay in small files.
        """
        merged = Merged([], [])
        by_dataset = sorted(segments, key=attrgetter("dataset"))
        for _, group in groupby(by_dataset, attrgetter("dataset")):
            newest = list(group)[-NEWEST:]
            limit = MergeLimit(self._left, MOST_RAW_ROWS, read_ns)
            if newest[0].is_derived:
                limit = MergeLimit(self._left, MAX_ROWS, MAX_TIME_NS)
            run = longest_run(newest, limit)
            if not run:
                continue
            self._left -= sum(segment.bytes for segment in run)
            try:
                one = self._write(run, newest)
            except (OSError, ValueError, TypeError, LookupError, DamagedSegment) as error:
                # Nothing depends on it, and sealing must go on.
                log.warning("segments of %s are not merged, all stay: %s", run[0].path, error)
                continue
            merged.segments.append(one)
            merged.replaced.extend(segment.path for segment in run)
        return merged

    def _write(self, run: Sequence[Segment], among: Sequence[Segment]) -> Segment:
        """among: all segments of the dataset, in order."""
        job, dataset, first = run[0].job, run[0].dataset, run[0].number
        pieces = _pieces(self._root, run)
        follows = among[among.index(run[-1]) + 1 :]
        last = (follows[0].number if follows else self._number) - 1
        return write(self._root, job, dataset, self._number, pieces, first, self._identity, last)


def longest_run(segments: Sequence[Segment], limit: MergeLimit) -> Sequence[Segment]:
    """The most neighbours that may be merged, of several as many the newest; none: there are too few."""
    best: Sequence[Segment] = ()
    for begin in range(len(segments)):
        count = size = largest = 0
        for end, segment in enumerate(segments[begin:], begin + 1):
            count, size, largest = count + segment.rows, size + segment.bytes, max(largest, segment.rows)
            if count > limit.rows or size > limit.bytes or segment.end_ns >= limit.before_ns:
                break
            if count >= GROWTH * largest and end - begin >= max(FEWEST, len(best)):
                best = segments[begin:end]
    return best


def _pieces(root: Path, run: Sequence[Segment]) -> Iterator[Piece]:
    """All rows in order, as many together as make a row group, or as fit into PIECE_BYTES."""
    begin_ns, end_ns = min(s.begin_ns for s in run), max(s.end_ns for s in run)
    kinds = common_columns(plain(pq.read_schema(root / segment.path).empty_table()) for segment in run)
    most = max(1, min(ROWS_PER_GROUP, PIECE_BYTES // (8 * len(kinds))))
    held: list[Table] = []
    for segment in run:
        for table in batches(root, segment, most, use_threads=False):
            if held and sum(map(rows, held)) + rows(table) > most:
                yield Piece(with_columns(kinds, concatenate(held)), begin_ns, end_ns)
                held = []
            held.append(table)
    yield Piece(with_columns(kinds, concatenate(held)), begin_ns, end_ns)
