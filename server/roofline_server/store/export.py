"""Raw data of a job as it came, on the server's clock, with names for numbers: for who wants to reckon alone.

Data is read a file, or a piece of one, at a time: memory does not follow the length of the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..chunks import Chunk, Column, split
from ..clock import NodeClock
from ..records import (
    ABSENT,
    EventKind,
    Frame,
    Incarnation,
    Ints,
    KernelKind,
    Machine,
    MarkKind,
    Metric,
    RankKey,
    Table,
    concatenate,
    rows,
    take,
)
from .catalog.catalog import Life
from .segments.files import Segment
from .segments.leases import Lease
from .segments.reader import by_dataset, on_server_clock, plain

PIECE_ROWS = 50_000
MADE = ("steps", "parts_")  # datasets that were made of others
SLACK_NS = 10_000_000_000  # a segment's times were told by its clock as it was known then

# What each dataset calls its moments; `node_ns` is the first of them as the node's own clock told it.
BEGINS = ("spans", "calls", "events", "node_events")
FIRST = ("rank", "sender", "host", "instance", "time_ns", "begin_ns", "end_ns", "duration_ns", "node_ns")
LAST = ("start_ns",)
UNITS = {"bytes": "byte", "flops": "FLOP", "dram": "byte", "l1": "byte", "l2": "byte"}
WHY = {
    "node_ns": "the same moment on the node's CLOCK_MONOTONIC",
    "start_ns": "when the process started: tells two that were one rank after each other apart",
    "sender": "who said so: the rank itself, or its coordinator",
}


class RawData(NamedTuple):
    """Where the raw data of one job lies at one moment, and the names for the numbers in it."""

    root: Path
    segments: Sequence[Segment]
    frames: Sequence[Frame]
    node_segments: Sequence[Segment]  # of what concerns nodes and no job
    node_frames: Sequence[Frame]
    clocks: Mapping[int, NodeClock]
    ranks: Mapping[int, RankKey]
    lives: Mapping[Incarnation, Life]
    machines: Mapping[int, Machine]
    kernels: Mapping[int, KernelKind]
    metrics: Mapping[str, Sequence[Metric]]
    lease: Lease | None = None  # while it is held the files of the segments stay


def export(raw: RawData) -> Iterator[Chunk]:
    """All datasets, one after the other; all chunks of one have the same columns. Absent: ABSENT, NaN, ""."""
    yield from split(Chunk("ranks", _rank_columns(raw)))
    fresh = by_dataset(raw.frames)
    names = {s.dataset for s in raw.segments if not s.dataset.startswith(MADE)} | fresh.keys()
    for name in sorted(names):
        segments = [s for s in raw.segments if s.dataset == name]
        yield from _dataset(raw, name, segments, fresh.get(name, {}))
    while_there = _while_there(raw)
    fresh = by_dataset(f for f in raw.node_frames if f.dataset == "events")
    segments = [s for s in raw.node_segments if s.dataset == "events" and _overlaps(s, *_extent(raw))]
    yield from _dataset(raw, "node_events", segments, fresh.get("events", {}), while_there)


def _dataset(
    raw: RawData,
    name: str,
    segments: Sequence[Segment],
    fresh: Table,
    pick: Callable[[Table], Table] = lambda table: table,
) -> Iterator[Chunk]:
    """Chunks of one dataset; the columns are those that any segment has."""
    kinds = _kinds(raw, segments, fresh)
    for table in _all_pieces(raw, segments, fresh):
        if rows(some := pick(table)):
            whole = {column: some.get(column, _absent(kind, rows(some))) for column, kind in kinds.items()}
            yield from split(Chunk(name, _named(raw, name, whole)))


def _all_pieces(raw: RawData, segments: Sequence[Segment], fresh: Table) -> Iterator[Table]:
    for segment in segments:
        with pq.ParquetFile(raw.root / segment.path) as file:
            for batch in file.iter_batches(batch_size=PIECE_ROWS):
                yield plain(batch)
    for first in range(0, rows(fresh), PIECE_ROWS):
        yield {name: column[first : first + PIECE_ROWS] for name, column in fresh.items()}


def _kinds(raw: RawData, segments: Sequence[Segment], fresh: Table) -> dict[str, str]:
    """Column -> "i", "f" or "O", of all segments and the rest together."""
    found: dict[str, str] = {name: column.dtype.kind for name, column in fresh.items()}
    for segment in segments:
        for field in pq.read_schema(raw.root / segment.path):
            kind = (
                "i" if pa.types.is_integer(field.type) else "f" if pa.types.is_floating(field.type) else "O"
            )
            found.setdefault(field.name, kind)
    return found


def _absent(kind: str, count: int) -> NDArray[Any]:
    if kind == "f":
        return np.full(count, np.nan)
    return np.full(count, ABSENT, np.int64) if kind == "i" else np.full(count, "", object)


# -- names for numbers -------------------------------------------------------------------------------------


def _named(raw: RawData, dataset: str, table: Table) -> list[Column]:
    own_time = table["time_ns"].astype(np.int64)
    found = dict(on_server_clock(table, raw.clocks))
    found["node_ns"] = own_time
    if dataset in BEGINS:
        found["begin_ns"] = found.pop("time_ns")
    hosts = {number: machine.host for number, machine in raw.machines.items()}
    found["host"] = _texts(found.pop("node"), hosts)
    for name in ("rank", "sender"):
        if name in found:
            found[name] = _texts(found[name], _rank_names(raw))
    if "kind" in found:
        kinds = MarkKind if dataset == "marks" else EventKind
        found["kind"] = _texts(found["kind"], {int(kind): kind.name.lower() for kind in kinds})
    if "kernel" in found:
        found.pop("precision", None)  # its code; the kernel has the word
        number = found.pop("kernel")
        for at, name in enumerate(KernelKind._fields[:-1]):
            found[name] = _texts(number, {n: str(kind[at]) for n, kind in raw.kernels.items()})
    metrics = {m.name: m for m in raw.metrics.get(dataset.removeprefix("samples_"), ())}
    return [_column(name, found[name], metrics.get(name)) for name in sorted(found, key=_place)]


def _texts(numbers: Ints, names: Mapping[int, str]) -> NDArray[Any]:
    each, at = np.unique(numbers, return_inverse=True)
    return np.array([names.get(number, "") for number in each.tolist()], object)[at.reshape(-1)]


def _rank_names(raw: RawData) -> dict[int, str]:
    return {number: f"{key.role}:{key.index}" for number, key in raw.ranks.items()}


def _place(name: str) -> tuple[int, int]:
    if name in FIRST:
        return (0, FIRST.index(name))
    return (2, LAST.index(name)) if name in LAST else (1, 0)


def _column(name: str, values: NDArray[Any], metric: Metric | None) -> Column:
    if metric is not None:
        return Column(name, values, metric.unit, metric.provenance)
    return Column(
        name, values, "ns" if name.endswith("_ns") else UNITS.get(name, ""), reason=WHY.get(name, "")
    )


def _rank_columns(raw: RawData) -> list[Column]:
    lives = sorted(raw.lives.items(), key=lambda one: (one[0].rank, one[1].first_ns))
    names = _rank_names(raw)
    heard = [_on_clock(raw, who, life) for who, life in lives]
    texts = {
        "rank": [names[who.rank] for who, _ in lives],
        "host": [raw.machines[who.node].host for who, _ in lives],
        "name": [who.name for who, _ in lives],
        "framework": [who.framework for who, _ in lives],
    }
    numbers = {
        "pid": [who.pid for who, _ in lives],
        "world": [who.world for who, _ in lives],
        "first_ns": [first for first, _ in heard],
        "last_ns": [last for _, last in heard],
        "exited": [int(life.exited) for _, life in lives],
        "start_ns": [who.start_ns for who, _ in lives],
    }
    columns = [Column(name, np.array(values, object)) for name, values in texts.items()]
    return columns + [_column(name, np.array(values, np.int64), None) for name, values in numbers.items()]


# -- which of it -------------------------------------------------------------------------------------------


def _on_clock(raw: RawData, who: Incarnation, life: Life) -> tuple[int, int]:
    first, last = raw.clocks[who.node].to_server(np.array([life.first_ns, life.last_ns], np.int64)).tolist()
    return first, last


def _extent(raw: RawData) -> tuple[int, int]:
    """Server time from the first to the last that was heard of the job."""
    heard = [_on_clock(raw, who, life) for who, life in raw.lives.items()]
    return min((h[0] for h in heard), default=0), max((h[1] for h in heard), default=0)


def _overlaps(segment: Segment, begin_ns: int, end_ns: int) -> bool:
    return segment.end_ns >= begin_ns - SLACK_NS and segment.begin_ns <= end_ns + SLACK_NS


def _while_there(raw: RawData) -> Callable[[Table], Table]:
    """Picks the rows of the job's nodes from the time that it was there."""
    there: dict[int, tuple[int, int]] = {}
    for who, life in raw.lives.items():
        first, last = there.get(who.node, (life.first_ns, life.last_ns))
        there[who.node] = min(first, life.first_ns), max(last, life.last_ns)

    def pick(table: Table) -> Table:
        wanted = np.zeros(rows(table), bool)
        for node, (first, last) in there.items():
            wanted |= (table["node"] == node) & (table["end_ns"] >= first) & (table["time_ns"] <= last)
        return take(table, wanted)

    return pick


def count(raw: RawData, dataset: str) -> int:
    """Rows of a dataset, of all ranks."""
    sealed = sum(s.rows for s in raw.segments if s.dataset == dataset)
    return sealed + sum(rows(f.base) for f in raw.frames if f.dataset == dataset)


def earliest(raw: RawData, datasets: Sequence[str]) -> int | None:
    """Server time of the first row of these datasets, of all ranks; None: there is none."""
    moments = []
    for dataset in datasets:
        tables = [by_dataset(f for f in raw.frames if f.dataset == dataset).get(dataset, {})]
        segments = [s for s in raw.segments if s.dataset == dataset]
        if segments:
            first = min(segments, key=lambda segment: segment.begin_ns)
            arrow = pq.read_table(raw.root / first.path, columns=["time_ns", "node"])
            tables.append(plain(arrow.combine_chunks()))
        moments += [int(on_server_clock(t, raw.clocks)["time_ns"].min()) for t in tables if rows(t)]
    return min(moments, default=None)


def of_ranks(raw: RawData, dataset: str, ranks: Sequence[int], begin_ns: int, end_ns: int) -> Table:
    """Rows of these ranks in a stretch of server time, on the server's clock, by rank in order of time."""
    tables = []
    for segment in raw.segments:
        if segment.dataset == dataset and _overlaps(segment, begin_ns, end_ns):
            arrow = pq.read_table(raw.root / segment.path, filters=[("rank", "in", list(ranks))])
            tables.append(plain(arrow.combine_chunks()))
    fresh = by_dataset(f for f in raw.frames if f.dataset == dataset).get(dataset, {})
    if rows(fresh):
        tables.append(take(fresh, np.isin(fresh["rank"], list(ranks))))
    table = on_server_clock(concatenate(tables), raw.clocks)
    if not rows(table):
        return {}
    ends = table["end_ns"] if "end_ns" in table else table["time_ns"] + table["duration_ns"]
    table = take(table, (ends >= begin_ns) & (table["time_ns"] <= end_ns))
    return take(table, np.lexsort((table["time_ns"], table["rank"])))
