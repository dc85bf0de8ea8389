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
        yield _paragraph(what)


def _paragraph(what: Text | str) -> str:
    text = str(what)
    words = escape(text.lstrip(" ")).replace("\n", "<br>")
    bold, dim = (isinstance(what, Text) and str(what.style) == style for style in ("bold", "dim"))
    look = "margin:0.2em 0" + (";opacity:0.7" if dim else "")
    indent = len(text) - len(text.lstrip(" "))
    look += f";padding-left:{indent / 2:g}em" if indent else ""
    return f'<p style="{look}">{f"<b>{words}</b>" if bold else words}</p>'


def _table(what: Columns) -> str:
    sides = [RIGHT if column.right else LEFT for column in what.columns]
    heads = "".join(f"<th {s}>{escape(c.name)}</th>" for c, s in zip(what.columns, sides, strict=True))
    title = f"<caption {LEFT}><b>{escape(what.title)}</b></caption>" if what.title else ""
    rows = "".join(f"<tr>{_row(cells, sides)}</tr>" for cells, _ in what.rows)
    return f"<table>{title}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _row(cells: list[str], sides: list[str]) -> str:
    return "".join(f"<td {side}>{escape(cell)}</td>" for cell, side in zip(cells, sides, strict=True))
