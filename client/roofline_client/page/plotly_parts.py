"""What the pictures of the page have in common, as plotly reads them: data and layout. No I/O.

Colours of roles and parts are those of `roofline-client plot`; those of steps are in `step_figures`.
"""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import Any

from roofline.answers.values import Value

from ..tables import wording
from ..tables.columns import Columns

MOST_RANKS = 64  # bars and rows; beyond these the worst are shown
ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
Figure = dict[str, Any]


def plain(text: str) -> str:
    """plotly takes some HTML in texts: names from a training are none."""
    return escape(text, quote=False)


def in_template(text: str) -> str:
    """Plain text in a template of plotly's, where %{...} stands for values."""
    return plain(text).replace("%{", "% {")


def instead(words: str) -> Figure:
    """What stands where nothing can be drawn."""
    middle = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    return {**middle, "text": "<br>".join(wrap(escape(words), 60)), "showarrow": False}


def origin(value: Value) -> str:
    """Where a value comes from, and how much of its steps it covers."""
    seen = "" if value.coverage is None else f"{value.coverage:.0%} covered"
    return ", ".join(part for part in (str(value.provenance), seen) if part)


def add_left_out(table: Columns, known: int) -> None:
    """Say in a last row how many of the `known` ranks the table leaves out."""
    if (left_out := known - len(table.rows)) > 0:
        table.add(wording.more_ranks(left_out), *("" for _ in table.columns[1:]))
