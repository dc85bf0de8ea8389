"""What commands print, as HTML for a notebook: the same words and cells, escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from rich.console import Group
from rich.text import Text

from ..tables.columns import Columns
from ..tables.labelled import Labelled, Paragraph

# No font, script or picture from elsewhere: the file works offline, in light and dark.
STYLE = """\
:root { color-scheme: light dark; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }
table { border-collapse: collapse; margin: 0.8em 0; display: block; overflow-x: auto; }
caption { padding: 0.3em 0; }
th, td { padding: 0.15em 1.2em 0.15em 0; vertical-align: top; font-variant-numeric: tabular-nums; }
thead th { border-bottom: 1px solid color-mix(in srgb, currentColor 35%, transparent); }
"""
RIGHT, LEFT = 'style="text-align:right"', 'style="text-align:left"'


def html(what: Any) -> str:
    """A text, a table, or a group of them. No link, script or style from a name can come through."""
    return f'<div class="roofline">{"".join(_parts(what))}</div>'


def document(title: str, what: Any) -> str:
    """A whole page: one file that needs no other."""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n{html(what)}\n</body>\n</html>"
    )


def _parts(what: Any) -> Iterator[str]:
    if isinstance(what, Group):
        for part in what.renderables:
            yield from _parts(part)
    elif isinstance(what, Columns):
        yield _table(what)
    elif isinstance(what, Labelled):
        yield _labelled(what)
    elif str(what):
        yield _paragraph(str(what), str(what.style) if isinstance(what, (Text, Paragraph)) else "")


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


def _labelled(what: Labelled) -> str:
    rows = []
    for row in what.rows:
        bold = "bold" in row.style
        text = f"<b>{escape(row.flowing)}</b>" if bold else escape(row.flowing)
        aside = f" <i>{escape(row.aside)}</i>" if row.aside else ""
        label = escape(row.label.strip(" "))
        if not row.label.startswith(" "):
            label = f"<b>{label}</b>"
        rows.append(f"<tr><td {LEFT}>{label}</td><td {LEFT}>{text}{aside}</td></tr>")
    return f"<table><tbody>{''.join(rows)}</tbody></table>"
