"""Predictions as text, JSON, CSV and tables. Contains words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.values import Value
from roofline.answers.what_if import Predicted, WhatIf

from . import about, flat, units, wording
from .columns import Column, Columns
from .documents import document
from .labelled import Paragraph
from .names import clean

CSV_COLUMNS = ("job", "change", "metric", "now", "then", "low", "high", "unit", "provenance", "reason")
TITLES = {"step": "step", "rate": "examples/s"}


def as_text(found: WhatIf) -> Group:
    """The answer first, then the numbers, and what they are based on."""
    mode = f" ({found.mode})" if found.mode else ""
    parts: list[Any] = [Paragraph(found.sentence, style="bold"), Text(clean(f"Job {found.job}{mode}"))]
    if found.step.then.value is not None:
        parts += ["", _table(found)]
    parts += about.section(wording.STANDS_ON, [f"  {line}" for line in found.basis])
    return Group(*parts, *about.notes(found.notes))


def _table(found: WhatIf) -> Columns:
    heads = [Column(""), *(Column(name, right=True) for name in ("now", "then", "at least", "at most"))]
    table = Columns(clean(f"With {found.change}"), heads)
    for name, title in TITLES.items():
        one: Predicted = getattr(found, name)
        table.add(title, units.show(one.now), units.show(one.then), _end(one, one.low), _end(one, one.high))
    return table


def _end(one: Predicted, end: float | None) -> str:
    return units.show(one.then._replace(value=end) if end is not None else Value(None, one.then.unit))


def as_json(found: WhatIf) -> str:
    """JSON (docs/what_if.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return document(**found._asdict())


def rows(found: WhatIf) -> Iterator[tuple[Any, ...]]:
    """A row for the step and one for the rate, in the order of CSV_COLUMNS; an absent value is None."""
    for name in TITLES:
        one: Predicted = getattr(found, name)
        then = one.then
        numbers = (one.now.value, then.value, one.low, one.high)
        yield (found.job, found.change, name, *numbers, then.unit, then.provenance, then.reason)


def as_csv(found: WhatIf) -> str:
    """CSV; an absent value is an empty cell with its reason in the last column."""
    return flat.as_csv(flat.Table(CSV_COLUMNS, list(rows(found)), {}))


def tables(found: WhatIf) -> dict[str, flat.Table]:
    return {"predictions": flat.Table(CSV_COLUMNS, list(rows(found)), {})}
