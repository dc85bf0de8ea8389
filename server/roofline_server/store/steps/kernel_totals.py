"""Reads a job's kernel calls piece by piece and adds them up by kind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.parquet as pq

from ...correlate import spans
from ...correlate.kernel_totals import Adder, KernelTotal, Phases, Stretches
from ...records import Table, concatenate, rows, take
from ..export import RawData
from ..segments.files import ROWS_PER_GROUP, Segment
from ..segments.reader import by_dataset, on_server_clock, plain

PIECE_ROWS = 1 << 17
BATCH_ROWS = ROWS_PER_GROUP // 2  # of a file at a time: across its row groups would cost three times as much
COLUMNS = frozenset(
    ("rank", "node", "kernel", "time_ns", "duration_ns", "flops", "bytes", "dram", "l1", "l2", "on_gpu")
)
SPANS = frozenset(("rank", "node", "time_ns", "end_ns", "name", "bytes", "count"))
MARKS = frozenset(("rank", "node", "kind", "time_ns", "phase"))
SLACK_NS = 60_000_000_000  # a call of a segment may last beyond its end; clocks are known better later


def totals(raw: RawData, stretches: Stretches, by_phase: bool = False) -> tuple[list[KernelTotal], int]:
    """Totals of the calls in these stretches, and how many calls of these ranks lie in none."""
    phases = Phases(_phases(raw, stretches)) if by_phase else None
    adder = Adder(stretches, phases)
    for piece in _pieces(raw, "calls", COLUMNS, _extent(stretches)):
        adder.add(on_server_clock(piece, raw.clocks))
    return adder.totals(raw.kernels), adder.outside


def _phases(raw: RawData, stretches: Stretches) -> Table:
    """Phases that hooks saw, and those that the training marked itself, of these ranks."""
    ranks = sorted(stretches)
    found = {}
    for dataset, columns in (("spans", SPANS), ("marks", MARKS)):
        pieces = _pieces(raw, dataset, columns, _extent(stretches))
        some = [take(piece, np.isin(piece["rank"], ranks)) for piece in pieces]
        found[dataset] = on_server_clock(concatenate(some), raw.clocks)
    return concatenate([found["spans"], spans.of_marks(found["marks"])])


def _extent(stretches: Stretches) -> tuple[int, int] | None:
    """Server time from the first stretch to the last; None: no bounds."""
    if any(s is None for s in stretches.values()):
        return None
    known = [s for s in stretches.values() if s is not None and len(s[0])]
    return (
        min((int(begin.min()) for begin, _ in known), default=0),
        max((int(end.max()) for _, end in known), default=0),
    )


def _pieces(
    raw: RawData, dataset: str, columns: frozenset[str], extent: tuple[int, int] | None
) -> Iterator[Table]:
    """All rows of a dataset, about PIECE_ROWS at a time: small files together, large ones in parts."""
    held: list[Table] = []
    for segment in raw.segments:
        if segment.dataset == dataset and _overlaps(segment, extent):
            for piece in _read(raw, segment, columns):
                held.append(piece)
                if sum(map(rows, held)) >= PIECE_ROWS:
                    yield concatenate(held)
                    held = []
    fresh = by_dataset(f for f in raw.frames if f.dataset == dataset).get(dataset, {})
    held.append({name: column for name, column in fresh.items() if name in columns})
    if rows(last := concatenate(held)):
        yield last


def _overlaps(segment: Segment, extent: tuple[int, int] | None) -> bool:
    return extent is None or (
        segment.end_ns >= extent[0] - SLACK_NS and segment.begin_ns <= extent[1] + SLACK_NS
    )


def _read(raw: RawData, segment: Segment, columns: frozenset[str]) -> Iterator[Table]:
    with pq.ParquetFile(raw.root / segment.path) as file:
        names = [name for name in file.schema_arrow.names if name in columns]
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
            yield plain(batch)
