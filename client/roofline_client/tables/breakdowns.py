"""What work, traffic and time are made of, as text and as tables. Knows words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.breakdown import Breakdown, BreakdownPart
from roofline.answers.values import Value

from . import about, flat, units
from .columns import Column, Columns
from .names import clean

TITLES = {
    "flops_by_width": "FLOPs by vector width",
    "flops_by_precision": "FLOPs by precision",
    "work_and_memory": "work and memory",
    "traffic_by_level": "traffic by level",
    "kernels_by_time": "kernels by time",
    "time": "time of a step",
}
OF_WHAT = "Values are means of a step; of ranks without steps they are of the whole run."
BAR = 20  # cells of a whole
EIGHTHS = " ▏▎▍▌▋▊▉"
PARTS_SHOWN = 24  # of a kind and subject


def as_text(found: Breakdown) -> Group:
    """A table per subject and kind, each part with its share as a bar."""
    parts: list[Any] = [about.head(found.about, "breakdown")]
    for (subject, kind), members in groupby(found.parts, lambda part: (part.subject, part.kind)):
        parts += ["", *_whole(subject, kind, list(members))]
    parts += about.reasons((p.part, f"{p.subject} ({_title(p.kind)})", p.value) for p in found.parts)
    parts += about.notes(found.notes)
    return Group(*parts, "", Text(OF_WHAT, style="dim"), about.legend(_legend(found.parts)))


def _title(kind: str) -> str:
    return TITLES.get(kind, kind.replace("_", " "))


def _whole(subject: str, kind: str, members: Sequence[BreakdownPart]) -> list[Any]:
    shown = members[:PARTS_SHOWN]
    heads = [Column(""), Column("value", right=True), Column("share", right=True), Column("")]
    table = Columns(f"{subject}: {_title(kind)}", heads)
    for part in shown:
        table.add(f"  {part.part}", _amount(part.value), units.share(part.share), bar(part.share))
    lines = (
        [f"and {len(members) - len(shown)} more: --format csv has all"] if len(members) > len(shown) else []
    )
    lines += [f"{part.part}: {part.words}" for part in shown if part.words]
    return [table, *(Text(clean(f"  {line}")) for line in lines)]


def _amount(value: Value) -> str:
    """A large count has its thousands set apart; a unit that the number does not show stands behind it."""
    if value.unit == "1" and value.value is not None and abs(value.value) >= 1000:
        return f"{value.value:,.0f}"
    shown = units.show(value)
    return f"{shown} {value.unit}" if shown != "-" and value.unit == "FLOP/byte" else shown


def bar(share: Value) -> str:
    """As long as its share of the whole, in eighths of a cell; nothing for one nobody knows."""
    eighths = round(BAR * 8 * min(max(share.value or 0.0, 0.0), 1.0))
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def _legend(parts: Sequence[BreakdownPart]) -> Iterator[tuple[str, Value]]:
    return ((_title(part.kind), part.value) for part in parts)


def as_json(found: Breakdown) -> str:
    """JSON (docs/models.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return about.as_json("breakdown", found)


def tables(found: Breakdown) -> dict[str, flat.Table]:
    """parts: a row each; those of one kind and subject add up to its whole where they have shares."""
    return {"parts": flat.table(BreakdownPart, found.parts).wider(job=about.jobs(found.about))}
