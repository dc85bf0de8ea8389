"""What commands print, as Markdown for GitHub: the same words and cells, escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rich.console import Group
from rich.text import Text

from .columns import Columns
from .labelled import Labelled, Paragraph

# Whatever could begin markup inside a line; a text that begins as a list or a heading would be one. Before
# anything but punctuation a backslash is shown: of "1. see" it goes before the point.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$])")
_BEGIN = re.compile(r"^(\s*(?:\d+(?=[.)](?:\s|$)))?)([-+#=.)])")


def markdown(what: Any) -> str:
    """A text, a table, or a group of them. No link, picture or HTML from a name can come through."""
    return "\n\n".join(_blocks(what)) + "\n"


def _blocks(what: Any) -> Iterator[str]:
    if isinstance(what, Group):
        for part in what.renderables:
            yield from _blocks(part)
    elif isinstance(what, Columns):
        yield from _table(what)
    elif isinstance(what, Labelled):
        yield _list(what)
    elif str(what):
        bold = isinstance(what, (Text, Paragraph)) and str(what.style) == "bold"
        lines = [_escaped(line.strip(" ")) for line in str(what).split("\n")]
        yield f"**{lines[0]}**" if bold else "  \n".join(lines)


def _table(what: Columns) -> Iterator[str]:
    if what.title:
        yield f"**{_escaped(what.title)}**"
    lines = [
        [_escaped(column.name) for column in what.columns],
        ["---:" if column.right else "---" for column in what.columns],
        *([_escaped(cell.strip(" ")) for cell in cells] for cells, _ in what.rows),
    ]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _list(what: Labelled) -> str:
    """A label with blanks before it is a point below the one above; so is a line without label."""
    lines, depth = [], 0
    for row in what.rows:
        aside = f" ({_escaped(row.aside)})" if row.aside else ""
        label = f"**{_escaped(row.label.strip(' '))}** " if row.label else ""
        if row.label:
            depth = 1 if row.label.startswith(" ") else 0
        indent = "  " * (depth if row.label else depth + 1)
        lines.append(f"{indent}- {label}{_escaped(row.flowing)}{aside}")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    text = _MARKUP.sub(r"\\\1", text.replace("\n", " "))
    return _BEGIN.sub(r"\1\\\2", text)
