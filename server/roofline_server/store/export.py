"""Raw data of a job as it came, on the server's clock, with names for ids: for users' own calculations.

Data is read one file, or a piece of one, at a time, so memory does not grow with the length of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..chunks import Chunk, Column, split
from ..records import (
    EventKind,
    Incarnation,
    Ints,
    KernelKind,
    Lifetime,
    MarkKind,
    Metric,
    Table,
    absent,
    rows,
    take,
)
from ..sentences import notes
from .raw_data import RawData, unsealed
from .segments.files import Segment
from .segments.frames import by_dataset
from .segments.reader import on_server_clock

PIECE_ROWS = 50_000
MISSING = "missing"  # dataset: what cannot be handed out

# What each dataset calls its moments; `node_ns` is the first of them on the node's own clock.
BEGINS = ("spans", "between", "calls", "waits", "events", "node_events")
FIRST = ("rank", "sender", "host", "instance", "time_ns", "begin_ns", "end_ns", "duration_ns", "node_ns")
LAST = "start_ns"
UNITS = {"bytes": "byte", "flops": "FLOP", "dram": "byte", "l1": "byte", "l2": "byte"}
WHY = {
    "node_ns": "the same moment on the node's CLOCK_MONOTONIC",
    "start_ns": "when the process started: tells two that were one rank after each other apart",
    "sender": "who said so: the rank itself, or its coordinator",
}
WHY_MISSING = "how many of the file are not among the rows of its dataset"


class Missing(NamedTuple):
    """A segment of which so many rows cannot be read."""

    segment: Segment
    rows: int
    why: str


def export(raw: RawData) -> Iterator[Chunk]:
    """All datasets, one after the other; all chunks of one have the same columns. Absent: ABSENT, NaN, "".

    Where files are damaged or missing, the last dataset, `missing`, says what was in them.
    """
    yield from split(Chunk("ranks", _rank_columns(raw)))
    missing: list[Missing] = []
    fresh = by_dataset(raw.frames)
    for name in sorted({s.dataset for s in raw.segments if not s.is_derived} | fresh.keys()):
        segments = [s for s in raw.segments if s.dataset == name]
        pieces = _pieces(raw, segments, fresh.get(name, {}), missing)
        yield from _chunks(raw, name, pieces)
    # Events of the job's nodes, while the job was there.
    extents = [_on_clock(raw, who, lifetime) for who, lifetime in raw.process_lifetimes.items()]
    begin_ns = min((begin_ns for begin_ns, _ in extents), default=0)
    end_ns = max((end_ns for _, end_ns in extents), default=0)
    segments = [s for s in raw.node_segments if s.dataset == "events" and s.overlaps(begin_ns, end_ns)]
    pieces = _pieces(raw, segments, unsealed(raw.node_frames, "events"), missing)
    yield from _chunks(raw, "node_events", _while_job_ran(raw, pieces))
    if missing:
        yield from split(_missing(missing))


def _pieces(
    raw: RawData, segments: Sequence[Segment], fresh: Table, missing: list[Missing]
) -> Iterator[Table]:
    """The rows of one dataset; each piece has the columns that any segment has. missing: gets the rest."""
    kinds = {name: column.dtype for name, column in fresh.items()}
    for segment in segments:
        for name, column in raw.reader.columns(segment).items():
            kinds.setdefault(name, column.dtype)

    def tables() -> Iterator[Table]:
        for segment in segments:
            left = segment.rows
            for table in raw.reader.batches(segment, PIECE_ROWS):
                left -= rows(table)
                yield table
            if left:
                missing.append(Missing(segment, left, raw.reader.damaged.get(segment.path, "")))
        for first in range(0, rows(fresh), PIECE_ROWS):
            yield {name: column[first : first + PIECE_ROWS] for name, column in fresh.items()}

    for table in tables():
        whole: Table = {}
        for name, kind in kinds.items():
            whole[name] = table[name] if name in table else absent(kind, rows(table))
        yield whole


def _missing(found: Sequence[Missing]) -> Chunk:
    texts = {
        "of_dataset": [one.segment.dataset for one in found],
        "file": [one.segment.path for one in found],
        "why": [one.why for one in found],
    }
    columns = [Column(name, np.array(values, object)) for name, values in texts.items()]
    columns.append(Column("rows", np.array([one.rows for one in found], np.int64), reason=WHY_MISSING))
    return Chunk(MISSING, columns, [notes.damaged({one.segment.path: one.rows for one in found})])


def _while_job_ran(raw: RawData, pieces: Iterable[Table]) -> Iterator[Table]:
    """The rows of the job's nodes from the time that it was there."""
    extents: dict[int, tuple[int, int]] = {}
    for who, lifetime in raw.process_lifetimes.items():
        first, last = extents.get(who.node, (lifetime.first_ns, lifetime.last_ns))
        extents[who.node] = min(first, lifetime.first_ns), max(last, lifetime.last_ns)
    for table in pieces:
        wanted = np.zeros(rows(table), bool)
        for node, (first, last) in extents.items():
            wanted |= (table["node"] == node) & (table["end_ns"] >= first) & (table["time_ns"] <= last)
        yield take(table, wanted)


# -- names for ids -----------------------------------------------------------------------------------------


def _chunks(raw: RawData, dataset: str, pieces: Iterable[Table]) -> Iterator[Chunk]:
    for table in pieces:
        if rows(table):
            yield from split(Chunk(dataset, _columns(raw, dataset, table)))


def _columns(raw: RawData, dataset: str, table: Table) -> list[Column]:
    found = dict(on_server_clock(table, raw.clocks))
    found["node_ns"] = table["time_ns"].astype(np.int64)
    if dataset in BEGINS:
        found["begin_ns"] = found.pop("time_ns")
    hosts = {node: machine.host for node, machine in raw.machines.items()}
    found["host"] = _texts(found.pop("node"), hosts)
    is_samples, counter_set = dataset.startswith("samples_"), dataset.removeprefix("samples_")
    metrics = {m.name: m for m in raw.metrics.get(counter_set, ())} if is_samples else {}
    ids = found.keys() - metrics.keys()  # a metric may have such a name too
    for name in ("rank", "sender"):
        if name in ids:
            found[name] = _texts(found[name], _rank_names(raw))
    if "kind" in ids:
        kinds = MarkKind if dataset == "marks" else EventKind
        found["kind"] = _texts(found["kind"], {int(kind): kind.name.lower() for kind in kinds})
    if "kernel" in ids:
        found.pop("precision", None)  # its code; the kernel has the word
        kernel = found.pop("kernel")
        for at, name in enumerate(KernelKind._fields[:-1]):
            found[name] = _texts(kernel, {n: str(kind[at]) for n, kind in raw.kernels.items()})
    between = [name for name in found if name not in (*FIRST, LAST)]
    names = [name for name in (*FIRST, *between, LAST) if name in found]
    return [_column(name, found[name], metrics.get(name)) for name in names]


def _texts(ids: Ints, names: Mapping[int, str]) -> NDArray[Any]:
    each, at = np.unique(ids, return_inverse=True)
    return np.array([names.get(one, "") for one in each.tolist()], object)[at.reshape(-1)]


def _column(name: str, values: NDArray[Any], metric: Metric | None) -> Column:
    if metric is not None:
        return Column(name, values, metric.unit, metric.provenance)
    unit = "ns" if name.endswith("_ns") else UNITS.get(name, "")
    return Column(name, values, unit, reason=WHY.get(name, ""))


def _rank_columns(raw: RawData) -> list[Column]:
    processes = sorted(raw.process_lifetimes.items(), key=lambda one: (one[0].rank, one[1].first_ns))
    names = _rank_names(raw)
    extents = [_on_clock(raw, who, lifetime) for who, lifetime in processes]
    texts = {
        "rank": [names[who.rank] for who, _ in processes],
        "host": [raw.machines[who.node].host for who, _ in processes],
        "name": [who.name for who, _ in processes],
        "framework": [who.framework for who, _ in processes],
    }
    numbers = {
        "pid": [who.pid for who, _ in processes],
        "world": [who.world for who, _ in processes],
        "first_ns": [first for first, _ in extents],
        "last_ns": [last for _, last in extents],
        "exited": [int(lifetime.exited) for _, lifetime in processes],
        "start_ns": [who.start_ns for who, _ in processes],
    }
    columns = [Column(name, np.array(values, object)) for name, values in texts.items()]
    return columns + [_column(name, np.array(values, np.int64), None) for name, values in numbers.items()]


def _rank_names(raw: RawData) -> dict[int, str]:
    return {rank: f"{key.role}:{key.index}" for rank, key in raw.ranks.items()}


def _on_clock(raw: RawData, who: Incarnation, lifetime: Lifetime) -> tuple[int, int]:
    extent = np.array([lifetime.first_ns, lifetime.last_ns], np.int64)
    first, last = raw.clocks[who.node].to_server(extent).tolist()
    return first, last
