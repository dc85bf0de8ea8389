"""Breakdowns of work, traffic and time as text and as tables. Contains words and columns, no formula."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.breakdown import Breakdown, BreakdownPart
from roofline.answers.values import Value

from . import about, flat, units, wording
from .columns import Column, Columns
from .names import clean

BAR = 20  # cells of a whole
EIGHTHS = " ▏▎▍▌▋▊▉"
PARTS_SHOWN = 24  # of a kind and subject


def as_text(found: Breakdown) -> Group:
    """A table per subject and kind, each part with its share as a bar. Of a table in which nothing is known
    only the reason is shown."""
    parts: list[Any] = [about.head(found.about, "breakdown")]
    for (subject, kind), some in groupby(found.parts, lambda part: (part.subject, part.kind)):
        members = list(some)
        if any(part.value.value is not None for part in members):
            parts += ["", *_whole(subject, kind, members)]
    values = [(p.part, f"{p.subject} ({_title(p.kind)})", p.value) for p in found.parts]
    parts += about.reasons(values)
    parts += about.notes(found.notes)
    of_what = Text(wording.BREAKDOWN_LEGEND, style="dim")
    return Group(*parts, "", of_what, about.legend((_title(p.kind), p.value) for p in found.parts))


def _title(kind: str) -> str:
    return wording.BREAKDOWN_KINDS.get(kind, kind.replace("_", " "))


def _whole(subject: str, kind: str, members: Sequence[BreakdownPart]) -> list[Any]:
    heads = [Column(""), Column("value", right=True), Column("share", right=True), Column("")]
    table = Columns(f"{subject}: {_title(kind)}", heads)
    shown, lines = members[:PARTS_SHOWN], []
    if len(members) > len(shown):
        lines.append(wording.more_of_breakdown(len(members) - len(shown)))
    for part in shown:
        value = units.show(part.value)
        # A large count has its thousands set apart; a unit that the number does not show comes after it.
        if part.value.unit == "1" and part.value.value is not None and abs(part.value.value) >= 1000:
            value = f"{part.value.value:,.0f}"
        elif part.value.unit == "FLOP/byte" and part.value.value is not None:
            value += " FLOP/byte"
        table.add(f"  {part.part}", value, units.share(part.share), bar(part.share))
        if part.words:
            lines.append(f"{part.part}: {part.words}")
    return [table, *(Text(clean(f"  {line}")) for line in lines)]


def bar(share: Value) -> str:
    """As long as its share of the whole, in eighths of a cell; nothing for one nobody knows."""
    eighths = round(BAR * 8 * min(max(share.value or 0.0, 0.0), 1.0))
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def as_json(found: Breakdown) -> str:
    """JSON (docs/models.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return about.as_json("breakdown", found)


def as_csv(found: Breakdown) -> str:
    """The first of its tables as CSV."""
    return flat.as_csv(tables(found)["parts"])


def tables(found: Breakdown) -> dict[str, flat.Table]:
    """parts: a row each; those of one kind and subject add up to its whole where they have shares."""
    return {"parts": flat.table(BreakdownPart, found.parts).wider(job=about.jobs(found.about))}
