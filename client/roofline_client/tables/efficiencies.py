"""Efficiency as text and as tables: MFU, HFU and the waterfall. Contains words and columns, no formula."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from roofline.answers.efficiency import Efficiency, Utilisation
from roofline.answers.values import Value
from roofline.texts import many

from . import about, flat, units, wording
from .breakdowns import bar
from .columns import Column, Columns
from .documents import document
from .labelled import Paragraph
from .names import clean

RANKS_SHOWN = 8
CSV_COLUMNS = (
    "job",
    "label",
    "rank",
    "host",
    "kind",
    "name",
    "value",
    "unit",
    "share",
    "provenance",
    "coverage",
    "reason",
    "formula",
)
OF_RANKS = ("step", "mfu", "hfu", "roofline_utilisation")  # in the table of ranks


def as_text(found: Efficiency) -> Group:
    """The answer, what it is made of, where the step goes, and the ranks."""
    parts: list[Any] = [Paragraph(found.sentence, style="bold"), about.head(found.about, "efficiency")]
    parts += ["", _measures(found.whole)]
    if found.whole.waterfall:
        parts += ["", _waterfall(found.whole)]
    if len(found.ranks) > 1:
        parts += ["", _ranks(found)]
    named = [(wording.measure(one.name), found.whole.label, one.value) for one in found.whole.measures]
    return Group(*parts, *about.reasons(named), *about.notes(found.notes))


def _measures(whole: Utilisation) -> Columns:
    precision = f", {whole.precision}" if whole.precision else ""
    heads = [Column(""), Column("", right=True), Column("", folds=True)]
    table = Columns(clean(f"{whole.label}, {many(whole.steps, 'step')}{precision}"), heads)
    for one in whole.measures:
        if one.value.value is not None:
            table.add(f"  {wording.measure(one.name)}", _shown(one.value), one.formula)
    return table


def _shown(value: Value) -> str:
    return units.share(value) if value.unit == "1" else units.show(value)


def _waterfall(whole: Utilisation) -> Columns:
    heads = [Column(""), *(Column(name, right=True) for name in ("time", "share"))]
    heads += [Column(""), Column("", folds=True)]
    table = Columns(wording.ACCOUNT, heads)
    for part in whole.waterfall:
        name = f"  {wording.waterfall_part(part.part)}"
        table.add(name, units.show(part.time), units.share(part.share), bar(part.share), part.formula)
    return table


def _ranks(found: Efficiency) -> Columns:
    heads = [Column("rank"), *(Column(wording.measure(name), right=True) for name in OF_RANKS)]
    table = Columns("", heads)
    for one in found.ranks[:RANKS_SHOWN]:
        values = {measure.name: measure.value for measure in one.measures}
        table.add(one.label, *(_shown(values[name]) if name in values else "-" for name in OF_RANKS))
    if len(found.ranks) > RANKS_SHOWN:
        table.add(wording.more_ranks(len(found.ranks) - RANKS_SHOWN), *("" for _ in OF_RANKS))
    return table


def as_json(found: Efficiency) -> str:
    """JSON (docs/efficiency.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return document(**found._asdict())


def as_csv(found: Efficiency) -> str:
    """Measures and waterfall of all ranks together and of each, a row each; an absent value is an empty cell
    with its reason next to it."""
    return flat.as_csv(flat.joined(list(tables(found).values()), flat.Table(CSV_COLUMNS, [], {})))


def tables(found: Efficiency) -> dict[str, flat.Table]:
    """measures: a row each; waterfall: a part each, the parts of one rank add up to its mean step."""
    kinds: dict[str, list[tuple[Any, ...]]] = {"measures": [], "waterfall": []}
    job = about.jobs(found.about)
    for whose in (found.whole, *found.ranks):
        begin = (job, whose.label, whose.rank, whose.host)
        for one in whose.measures:
            kinds["measures"].append((*begin, "measure", one.name, *_cells(one.value, None), one.formula))
        for part in whose.waterfall:
            cells = _cells(part.time, part.share.value)
            kinds["waterfall"].append((*begin, "waterfall", part.part, *cells, part.formula))
    return {name: flat.Table(CSV_COLUMNS, rows, {}) for name, rows in kinds.items()}


def _cells(value: Value, share: float | None) -> tuple[Any, ...]:
    return (value.value, value.unit, share, value.provenance, value.coverage, value.reason)
