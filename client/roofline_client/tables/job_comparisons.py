"""Two jobs side by side as text, JSON, CSV and tables. Contains words and columns, no formula."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.comparison import Change, Comparison, SettingChange

from . import about, flat, units, wording
from .columns import Column, Columns
from .documents import document
from .labelled import Paragraph
from .names import clean

RATIOS = ("throughput", "step", "intensity")  # kinds whose change is a ratio
SHOWN = 24  # settings
LONG = 36  # characters of a value of a setting


def as_text(found: Comparison) -> Group:
    """The headline, what differed, and what that did."""
    parts: list[Any] = [
        Text(clean(f"Job {found.second} against job {found.first}"), style="bold"),
        Paragraph(found.headline),
    ]
    if found.settings:
        parts += ["", _settings(found)]
    if found.changes:
        parts += ["", _changes(found)]
    parts += about.notes(found.notes)
    return Group(*parts, "", Paragraph(wording.CHANGES_LEGEND, style="dim"))


def _settings(found: Comparison) -> Columns:
    table = Columns(wording.SETTINGS_CHANGED, [Column(""), *_jobs(found)])
    for one in found.settings[:SHOWN]:
        table.add(f"  {one.name}", _short(one.first), _short(one.second))
    if len(found.settings) > SHOWN:
        table.add(wording.more_facts(len(found.settings) - SHOWN), "", "")
    return table


def _jobs(found: Comparison) -> list[Column]:
    return [Column(clean(f"job {job}"), right=True) for job in (found.first, found.second)]


def _short(text: str) -> str:
    if not text:
        return "-"
    return text if len(text) <= LONG else f"{text[: LONG - 3]}..."


def _changes(found: Comparison) -> Columns:
    heads = [Column(""), *_jobs(found), Column("change", right=True), Column("95% interval", right=True)]
    table = Columns(wording.NUMBERS_CHANGED, [*heads, Column("")])
    for one in found.changes:
        show = units.share if one.kind == "roof_share" else units.show
        cells = [show(one.first), show(one.second), _change(one, one.change.value), _interval(one)]
        table.add(f"  {title(one)}", *cells, _sureness(one))
    return table


def title(one: Change) -> str:
    """ "step time", "PS wait a step", "intensity of worker, FLOP/byte"."""
    if one.kind == "part":
        return f"{wording.part(one.subject)} a step"
    name = wording.CHANGED.get(one.kind, one.kind.replace("_", " "))
    name += f" of {one.subject}" if one.subject else ""
    # Of these the numbers do not show their unit.
    return f"{name}, {one.first.unit}" if one.kind in ("throughput", "intensity") else name


def _change(one: Change, amount: float | None) -> str:
    if amount is None:
        return "-"
    if one.kind in RATIOS:
        return units.factor(amount)
    sign = "+" if amount > 0 else "-" if amount < 0 else ""
    if one.kind == "roof_share":
        return f"{sign}{abs(amount) * 100:.3g} points"
    return f"{sign}{units.number(abs(amount), one.change.unit)}"


def _sureness(one: Change) -> str:
    if not one.within_noise:
        return ""
    return "within noise" if one.low is not None else "too few steps"


def _interval(one: Change) -> str:
    if one.low is None or one.high is None:
        return "-"
    return f"{_change(one, one.low)} to {_change(one, one.high)}"


def as_json(found: Comparison) -> str:
    """JSON (docs/comparison.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return document(**found._asdict())


def as_csv(found: Comparison) -> str:
    """A row a number; those that are absent are empty cells."""
    return flat.as_csv(tables(found)["changes"])


def tables(found: Comparison) -> dict[str, flat.Table]:
    """changes: a row a number, with the unit of its row; settings: those that differ."""
    jobs = {"first_job": found.first, "second_job": found.second}
    return {
        "changes": flat.table(Change, found.changes).wider(**jobs),
        "settings": flat.table(SettingChange, found.settings).wider(**jobs),
    }
