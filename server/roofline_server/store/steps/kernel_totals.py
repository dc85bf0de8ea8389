"""Reads a job's kernel calls piece by piece and adds them up by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ...correlate import spans
from ...correlate.kernel_totals import ADDED, Adder, KernelTotal, Phases
from ...correlate.stretch_index import Stretches
from ...records import Floats, Table, concatenate, rows, take
from ..raw_data import RawData
from ..segments.files import ROWS_PER_GROUP
from ..segments.frames import by_dataset
from ..segments.reader import on_server_clock

PIECE_ROWS = 1 << 17
BATCH_ROWS = ROWS_PER_GROUP // 2  # of a file at a time: across its row groups would cost three times as much
COLUMNS = frozenset(("rank", "node", "time_ns", *ADDED))
SPANS = frozenset(("rank", "node", "time_ns", "end_ns", "name", "bytes", "count"))
MARKS = frozenset(("rank", "node", "kind", "time_ns", "phase"))


def totals(
    raw: RawData,
    stretches: Stretches,
    by_phase: bool = False,
    weights: Mapping[int, Floats] | None = None,
) -> tuple[list[KernelTotal], int]:
    """Totals of the calls in these stretches, and how many calls of these ranks lie in none.

    weights: see `Adder`.
    """
    extent = _extent(stretches)
    phases = None
    if by_phase:
        # Phases that hooks saw, and those that the training marked itself, of these ranks.
        own = {}
        for dataset, columns in (("spans", SPANS), ("marks", MARKS)):
            pieces = _pieces(raw, dataset, columns, extent)
            some = [take(piece, np.isin(piece["rank"], sorted(stretches))) for piece in pieces]
            own[dataset] = on_server_clock(concatenate(some), raw.clocks)
        phases = Phases(concatenate([own["spans"], spans.of_marks(own["marks"])]))
    adder = Adder(stretches, phases, weights)
    for piece in _pieces(raw, "calls", COLUMNS, extent):
        adder.add(on_server_clock(piece, raw.clocks))
    return adder.totals(raw.kernels), adder.outside


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
        if segment.dataset != dataset or (extent and not segment.overlaps(*extent)):
            continue
        for piece in raw.reader.batches(segment, BATCH_ROWS, columns):
            held.append(piece)
            if sum(map(rows, held)) >= PIECE_ROWS:
                yield concatenate(held)
                held = []
    fresh = by_dataset(f for f in raw.frames if f.dataset == dataset).get(dataset, {})
    held.append({name: column for name, column in fresh.items() if name in columns})
    if rows(last := concatenate(held)):
        yield last
