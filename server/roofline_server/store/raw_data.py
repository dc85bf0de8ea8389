"""Where the raw data of one job are, sealed and not, and what is read of them by time and rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from ..clock import NodeClock
from ..records import (
    Frame,
    Incarnation,
    KernelKind,
    Lifetime,
    Machine,
    Metric,
    RankKey,
    Table,
    concatenate,
    rows,
    take,
)
from .segments.files import Segment
from .segments.frames import by_dataset
from .segments.leases import Lease
from .segments.reader import Reader, on_server_clock


class RawData(NamedTuple):
    """Where the raw data of one job lies at one moment, and the names for the ids in it."""

    reader: Reader
    segments: Sequence[Segment]
    frames: Sequence[Frame]
    node_segments: Sequence[Segment]  # of what concerns nodes and no job
    node_frames: Sequence[Frame]
    clocks: Mapping[int, NodeClock]
    ranks: Mapping[int, RankKey]
    process_lifetimes: Mapping[Incarnation, Lifetime]
    machines: Mapping[int, Machine]
    kernels: Mapping[int, KernelKind]
    metrics: Mapping[str, Sequence[Metric]]
    lease: Lease | None = None  # while it is held the files of the segments stay

    @property
    def damaged(self) -> dict[str, int]:
        """Files of the job that were found to be damaged or missing, and the rows that were in them."""
        return self.reader.damaged_of(self.segments)


def unsealed(frames: Sequence[Frame], dataset: str) -> Table:
    """The rows of one dataset that are in no segment yet."""
    return by_dataset(f for f in frames if f.dataset == dataset).get(dataset, {})


def count(raw: RawData, dataset: str) -> int:
    """Rows of a dataset, of all ranks."""
    sealed = sum(s.rows for s in raw.segments if s.dataset == dataset)
    return sealed + sum(rows(f.base) for f in raw.frames if f.dataset == dataset)


def count_within(raw: RawData, dataset: str, limits: Mapping[int, tuple[int, int]]) -> int:
    """Rows of a dataset of events with a duration, of these ranks in their stretches of server time."""
    ranks = np.array(sorted(limits), np.int64)
    begins, ends = np.array([limits[rank] for rank in ranks.tolist()], np.int64).T
    whole, found = (int(begins.min()), int(ends.max())), 0
    columns = ("rank", "node", "time_ns", "duration_ns")
    some = (s for s in raw.segments if s.dataset == dataset and s.overlaps(*whole))
    for table in (unsealed(raw.frames, dataset), *(raw.reader.read([segment], columns) for segment in some)):
        if rows(table):
            table = on_server_clock(table, raw.clocks)
            at = np.minimum(np.searchsorted(ranks, table["rank"]), len(ranks) - 1)
            inside = (ranks[at] == table["rank"]) & (table["time_ns"] < ends[at])
            found += int((inside & (table["time_ns"] + table["duration_ns"] > begins[at])).sum())
    return found


def earliest(raw: RawData, datasets: Sequence[str]) -> int | None:
    """Server time of the first row of these datasets, of all ranks; None: there is none."""
    moments = []
    for dataset in datasets:
        tables = [unsealed(raw.frames, dataset)]
        segments = [s for s in raw.segments if s.dataset == dataset]
        for segment in sorted(segments, key=attrgetter("begin_ns")):
            if rows(table := raw.reader.read([segment], ("time_ns", "node"))):
                tables.append(table)
                break  # others are younger
        moments += [int(on_server_clock(t, raw.clocks)["time_ns"].min()) for t in tables if rows(t)]
    return min(moments, default=None)


def of_ranks(
    raw: RawData, dataset: str, ranks: Sequence[int], begin_ns: int, end_ns: int, without: str = ""
) -> Table:
    """Rows of these ranks in a stretch of server time, on the server's clock, by rank in order of time.

    without: rows whose `name` begins so may be left out.
    """
    tables = [
        raw.reader.of_ranks(segment, ranks, without)
        for segment in raw.segments
        if segment.dataset == dataset and segment.overlaps(begin_ns, end_ns)
    ]
    fresh = unsealed(raw.frames, dataset)
    if rows(fresh):
        tables.append(take(fresh, np.isin(fresh["rank"], list(ranks))))
    table = on_server_clock(concatenate(tables), raw.clocks)
    if not rows(table):
        return {}
    ends = table["end_ns"] if "end_ns" in table else table["time_ns"] + table["duration_ns"]
    near = np.flatnonzero((ends >= begin_ns) & (table["time_ns"] <= end_ns))
    return take(table, near[np.lexsort((table["time_ns"][near], table["rank"][near]))])
