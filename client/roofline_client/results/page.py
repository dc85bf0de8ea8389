"""What commands print, as HTML for a notebook: the same words and cells, escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from rich.console import Group
from rich.text import Text

from ..tables.columns import Columns

RIGHT, LEFT = 'style="text-align:right"', 'style="text-align:left"'


def html(what: Any) -> str:
    """A text, a table, or a group of them. No link, script or style from a name can come through."""
    return f'<div class="roofline">{"".join(_parts(what))}</div>'


def _parts(what: Any) -> Iterator[str]:
    if isinstance(what, Group):
        for part in what.renderables:
            yield from _parts(part)
    elif isinstance(what, Columns):
        yield _table(what)
    elif str(what):
        yield _paragraph(str(what), str(what.style) if isinstance(what, Text) else "")


def _paragraph(text: str, style: str) -> str:
    words = escape(text.lstrip(" ")).replace("\n", "<br>")
    if style == "bold":
        words = f"<b>{words}</b>"
    look = "margin:0.2em 0"
    if style == "dim":
        look += ";opacity:0.7"
    if indent := len(text) - len(text.lstrip(" ")):
        look += f";padding-left:{indent / 2:g}em"
    return f'<p style="{look}">{words}</p>'


def _table(what: Columns) -> str:
    title = f"<caption {LEFT}><b>{escape(what.title)}</b></caption>" if what.title else ""
    sides = [RIGHT if column.right else LEFT for column in what.columns]
    heads = [f"<th {side}>{escape(c.name)}</th>" for c, side in zip(what.columns, sides, strict=True)]
    rows = []
    for cells, _ in what.rows:
        row = [f"<td {side}>{escape(cell)}</td>" for cell, side in zip(cells, sides, strict=True)]
        rows.append(f"<tr>{''.join(row)}</tr>")
    return f"<table>{title}<thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
