"""The table of steps for people (the newest rows), and as JSON (all of them)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, TextIO

from rich.console import Group
from rich.text import Text
from roofline.answers.tables import TableChunk, TableColumn

from ..errors import ClientError
from . import about, units, wording
from .columns import Column, Columns
from .documents import VERSION
from .names import clean

# Column of the answer -> title in the text; of the others CSV and JSON tell.
TITLES = {
    "rank": "rank",
    "window_of": "step of",
    "step": "step",
    "begin_ns": "begin (UTC)",
    "duration_ns": "time",
    "examples": "examples",
    "samples": "samples",
    "cpu_time": "CPU",
    "sent_bytes": "sent",
    "received_bytes": "received",
    "flops": "FLOPs",
    "flops_per_second": "FLOP/s",
    "flops.measured": "counted",
    "intensity.minimum": "FLOP/byte",
    "input_time": "input",
    "forward_time": "forward",
    "backward_time": "backward",
    "communicate_time": "communicate",
    "optimizer_time": "optimizer",
    "asked_count": "asked",
    "asked_bytes": "asked bytes",
    "engine_count": "engine",
    "engine_bytes": "engine bytes",
    "engine_time": "engine time",
    "overlap_time": "overlap",
}
WORDS = ("rank", "window_of", "begin_ns")  # the rest are numbers
OWN_SHOWN = 6  # phases of the training's own that have a column; those that took most time


class Newest(NamedTuple):
    """The last rows in order of time, of how many there are."""

    rows: list[dict[str, Any]]
    columns: list[TableColumn]
    total: int
    notes: list[str]


def newest(chunks: Iterable[TableChunk], last: int) -> Newest:
    """The last rows of all ranks together, all if `last` is 0; no more than `last` of each rank are held."""
    held: dict[Any, deque[dict[str, Any]]] = {}
    columns: list[TableColumn] = []
    notes: list[str] = []
    total = 0
    for chunk in chunks:
        columns = columns or [column._replace(values=()) for column in chunk.columns]
        notes += chunk.notes
        total += chunk.rows
        # Of a chunk of one rank, as most are, only the rows that can be among the last become records.
        ranks = next((column.values for column in chunk.columns if column.name == "rank"), ())
        if last and ranks and ranks[0] == ranks[-1]:
            tails = [column._replace(values=column.values[-last:]) for column in chunk.columns]
            chunk = chunk._replace(columns=tails)
        for row in chunk.records():
            held.setdefault(row.get("rank"), deque(maxlen=last or None)).append(row)
    rows = sorted((row for some in held.values() for row in some), key=lambda row: row.get("begin_ns") or 0)
    return Newest(rows[-last:] if last else rows, columns, total, notes)


def own_phases(columns: Iterable[str]) -> dict[str, str]:
    """Phases that a training marks itself: column -> name. Times of other things end otherwise, or have a
    title."""
    own = (name for name in columns if name.endswith("_time") and name not in TITLES)
    return {name: name.removeprefix("phase.").removesuffix("_time") for name in own}


def as_text(job: str, found: Newest) -> Group:
    count = "no steps"
    if found.total:
        count = "1 step of a rank" if found.total == 1 else f"{found.total:,} steps of ranks"
    if len(found.rows) < found.total:
        count = wording.newest_of(len(found.rows), count)
    parts: list[Any] = [Text(clean(f"Job {job}: {count}"), style="bold")]
    if found.rows:
        own = own_phases(column.name for column in found.columns)
        most = sorted(own, key=lambda name: -sum(row[name] or 0.0 for row in found.rows))
        titles = {**TITLES, **{name: clean(own[name]) for name in most[:OWN_SHOWN]}}
        shown = [column for column in found.columns if column.name in titles]
        table = Columns("", [Column(titles[c.name], right=c.name not in WORDS) for c in shown])
        for row in found.rows:
            table.add(*(_cell(column, row[column.name]) for column in shown))
        parts += ["", table, "", Text(wording.STEPS_LEGEND, style="dim")]
        if more := [own[name] for name in most[OWN_SHOWN:]]:
            parts.append(Text(clean(wording.more_phases(more)), style="dim"))
    return Group(*parts, *about.notes(found.notes))


def _cell(column: TableColumn, value: Any) -> str:
    if value is None:
        return "-"
    if column.name == "begin_ns":
        return units.moment(value)
    if column.name == "duration_ns":
        return units.number(value / 1e9, "s")
    if isinstance(value, str) or column.name == "step":
        return str(value)
    return units.number(value, column.unit)


def write_json(job: str, chunks: Iterable[TableChunk], out: TextIO) -> None:
    """{"version", "job", "notes", "columns": [...], "steps": [{...}, ...]}, written as it comes.

    Absent is null. Raises ClientError for a number that JSON cannot hold.
    """
    between = ""
    for chunk in chunks:
        if not between:
            columns = [column._asdict() for column in chunk.columns]
            for column in columns:
                del column["values"]
            head = {"version": VERSION, "job": job, "notes": chunk.notes, "columns": columns}
            out.write(json.dumps(head)[:-1] + ', "steps": [')
            between = "\n"
        for row in chunk.records():
            try:
                line = json.dumps(row, allow_nan=False)
            except ValueError:
                raise ClientError(
                    "a step holds an infinity, which JSON cannot represent; --format csv shows where"
                ) from None
            out.write(between + line)
            between = ",\n"
    out.write("\n]}\n" if between else json.dumps({"version": VERSION, "job": job, "steps": []}) + "\n")
