"""Tables of a job and of machines that only the page has: collectives of its newest steps, who sends to whom,
and what each job was compared with. Words and columns, no formula."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from roofline.answers.machines import MachineVersion
from roofline.answers.report import Report
from roofline.answers.tables import TableChunk
from roofline.texts import listed

from ..tables import machines, units
from ..tables.columns import Column, Columns
from ..tables.labelled import Paragraph

COLLECTIVES = ("asked", "engine", "overlap_time", "communicate_time")
NEWEST_STEPS, MOST_ROWS = 3, 24
SENT, RECEIVED = "tcp_sent_bytes", "tcp_received_bytes"


def collectives(chunks: Iterable[TableChunk]) -> list[Any]:
    """What was requested and executed in the steps of a table."""
    rows: list[list[str]] = []
    titles: list[str] = []
    for chunk in chunks:
        named = {column.name: column for column in chunk.columns}
        shown = [column for column in chunk.columns if column.name.startswith(COLLECTIVES)]
        titles = titles or [column.name.replace("_", " ") for column in shown]
        for at in range(chunk.rows):
            begin = [str(named["rank"].values[at]), str(named["step"].values[at])]
            rows.append(begin + [_cell(column.values[at], column.unit) for column in shown])
    if not titles or not any(cell != "-" for row in rows for cell in row[2:]):
        return [Paragraph("No collectives were reported in the newest steps.")]
    heads = [Column("rank"), Column("step", right=True), *(Column(name, right=True) for name in titles)]
    table = Columns("Collectives of the newest steps", heads)
    for row in rows[:MOST_ROWS]:
        table.add(*row)
    if len(rows) > MOST_ROWS:
        table.add(f"and {len(rows) - MOST_ROWS} more", *[""] * (len(heads) - 1))
    return [table]


def _cell(number: Any, unit: str) -> str:
    absent = number is None or (isinstance(number, float) and math.isnan(number))
    return "-" if absent or isinstance(number, str) else units.number(float(number), unit)


def traffic(report: Report) -> list[Any]:
    """The matrix of who sends how much to whom, as text."""
    names = (f"{SENT}.per_second", f"{RECEIVED}.per_second")
    heads = [Column("rank"), Column("peer"), Column("sent", right=True), Column("received", right=True)]
    table = Columns("Who sends how much to whom (means over the job)", heads)
    ends = [one for one in report.parts if one.rank and one.instance and names[0] in one.values]
    for one in ends[:MOST_ROWS]:
        table.add(one.rank, one.instance, *(units.show(one.values.get(name)) for name in names))
    if len(ends) > MOST_ROWS:
        table.add(f"and {len(ends) - MOST_ROWS} more", "", "", "")
    return [table] if ends else [Paragraph("Traffic between ranks was not counted.")]


def held_against(versions: Sequence[MachineVersion]) -> list[Any]:
    """Which jobs each version of a machine is what they are compared with."""
    heads = [Column("machine"), Column("from (UTC)"), Column("to (UTC)"), Column("jobs", folds=True)]
    table = Columns("What jobs were held against", heads)
    for one in versions:
        begin, end = (units.when(at, machines.DAY_AND_TIME) for at in (one.since_ns, one.until_ns))
        table.add(machines.label(one), begin, "now" if end == "-" else end, listed(one.jobs) or "-")
    return [table] if table.rows else []
