"""Pieces of tables, as plain records and as messages of the wire."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from roofline.answers.tables import TableChunk, TableColumn
from roofline.answers.values import Provenance
from roofline.v1 import query_pb2 as pb

UNITS = {"begin_ns": "ns", "duration_ns": "ns", "end_ns": "ns", "cpu_time": "s", "sent_bytes": "byte"}
BEGIN = 1_760_000_000_000_000_000
MS = 1_000_000


def chunk(dataset: str, columns: Mapping[str, Sequence[Any]], notes: Sequence[str] = ()) -> TableChunk:
    made = [
        TableColumn(n, UNITS.get(n, ""), Provenance.MEASURED, "", list(values))
        for n, values in columns.items()
    ]
    return TableChunk(dataset, made, list(notes))


def message(dataset: str, columns: Mapping[str, Sequence[Any]], notes: Sequence[str] = ()) -> Any:
    """Whole numbers, numbers and texts as their first value is; None of a number is absent."""
    count = len(next(iter(columns.values())))
    made = pb.TableChunk(dataset=dataset, rows=count, notes=notes)
    for name, values in columns.items():
        column = made.columns.add(name=name, unit=UNITS.get(name, ""), provenance="PROVENANCE_MEASURED")
        if any(isinstance(v, str) for v in values):
            column.texts.extend(values)
        elif any(isinstance(v, float) for v in values):
            column.doubles = array("d", [float("nan") if v is None else v for v in values]).tobytes()
        else:
            column.ints = array("q", [-(2**63) if v is None else v for v in values]).tobytes()
    return made


def steps(rank: str = "worker:0", count: int = 3, first_ns: int = BEGIN) -> dict[str, Sequence[Any]]:
    return {
        "rank": [rank] * count,
        "step": list(range(count)),
        "begin_ns": [first_ns + k * 10 * MS for k in range(count)],
        "duration_ns": [9 * MS + k for k in range(count)],
        "cpu_time": [None if k == 1 else 0.1 + k for k in range(count)],
        "sent_bytes": [float(1000 * k) for k in range(count)],
    }


def introductions(ranks: Sequence[str] = ("ps:0", "worker:0")) -> dict[str, Sequence[Any]]:
    """The first rows of a timeline."""
    count = 2 + len(ranks)
    return {
        "rank": ["", "", *ranks],
        "host": ["", "node1", *("node1" for _ in ranks)],
        "row": ["job", "clock", *("rank" for _ in ranks)],
        "name": ["42", *("" for _ in range(count - 1))],
        "mode": ["synchronous"] * count,
        "begin_ns": [BEGIN] * count,
        "end_ns": [BEGIN + 1000 * MS] * count,
        "error": [None, 2.5e-5, *(None for _ in ranks)],
    }


def slices(
    row: str, times: Sequence[tuple[int, int]], rank: str = "worker:0", name: str = "", **more: Sequence[Any]
) -> dict[str, Sequence[Any]]:
    """times: (begin, end) in ns since the begin of the job."""
    return {
        "rank": [rank] * len(times),
        "row": [row] * len(times),
        "name": [name or f"{row} {at}" for at in range(len(times))],
        "begin_ns": [BEGIN + begin for begin, _ in times],
        "end_ns": [BEGIN + end for _, end in times],
        **more,
    }
