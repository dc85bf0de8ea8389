"""Lines of words that are wrapped where they are shown: with a label each, "Throughput   404 examples/s", and
paragraphs. No line is longer than the terminal or WIDTH."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from .names import clean

WIDTH = 100  # columns of the longest line, also where the terminal is wider
LABEL = 13  # columns before a line's text
APART = "   "  # between fields of a line; where blanks collapse, as in HTML, " · "
UNBROKEN = "\N{NO-BREAK SPACE}"


class LabelledLine(NamedTuple):
    label: str  # "": it goes on with what is above; a label that begins with blanks is below another
    text: str
    aside: str = ""  # at the right edge where it fits
    style: str = ""

    @property
    def flowing(self) -> str:
        """The text where blanks collapse."""
        return self.text.replace(APART, " · ")


class Labelled:
    """A rich renderable; labels and texts are plain text, whatever they hold."""

    def __init__(self) -> None:
        self.rows: list[LabelledLine] = []

    def add(self, label: str, text: str, aside: str = "", style: str = "") -> None:
        self.rows.append(LabelledLine(clean(label), clean(text), clean(aside), style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield from self.lines(min(WIDTH, options.max_width))

    def lines(self, width: int) -> list[Text]:
        """As they are shown in so many columns."""
        return [line for row in self.rows for line in _lines(row, width)]


class Paragraph:
    """A text, indented as it begins: what goes on below comes after its blanks and its "- "."""

    def __init__(self, text: str, style: str = "") -> None:
        self._text = clean(text)
        self.style = style

    def __str__(self) -> str:
        return self._text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = min(WIDTH, options.max_width)
        inner = self._text.lstrip(" ")
        indent = len(self._text) - len(inner) + (2 if inner.startswith("- ") else 0)
        pieces = wrapped(self._text, width, max(1, width - indent))
        yield Text(pieces[0], style=self.style)
        for piece in pieces[1:]:
            yield Text(" " * indent + piece, style=self.style)


def _lines(row: LabelledLine, width: int) -> Iterator[Text]:
    head = Text(row.label, style="bold" if row.label and not row.label.startswith(" ") else "")
    begin = max(LABEL, cell_len(row.label) + 2) if row.label else LABEL
    if begin > width // 2:
        yield from (Text(piece, style=head.style) for piece in wrapped(row.label, width))
        head, begin = Text(""), min(LABEL, width // 4)
    room = max(1, width - begin)
    text = row.text
    if row.aside:
        gap = room - cell_len(text) - cell_len(row.aside)
        # Where it does not fit at the edge it goes on with the text, and is not broken itself.
        text += " " * gap + row.aside if gap >= 2 else f" ({row.aside.replace(' ', UNBROKEN)})"
    pieces = [
        piece.replace(UNBROKEN, " ") for piece in wrapped(text, room, max(1, width - min(begin, LABEL)))
    ]
    yield Text.assemble(head, " " * (begin - cell_len(head.plain)), (pieces[0], row.style))
    for piece in pieces[1:]:
        yield Text.assemble(" " * min(begin, LABEL), (piece, row.style))


def wrapped(text: str, first: int, others: int = 0) -> list[str]:
    """The text in lines of at most `first` columns, then `others`; words that are longer are broken.

    Blanks inside a line stay as they are.
    """
    lines, room = [], first
    while cell_len(text) > room:
        fits = _fitting(text, room)
        cut = text.rfind(" ", 0, fits + 1)
        if cut <= 0 or not text[:cut].strip():
            cut = fits
        lines.append(text[:cut].rstrip(" "))
        text = text[cut:].lstrip(" ")
        room = others or first
    return [*lines, text]


def _fitting(text: str, room: int) -> int:
    """How many characters stand in so many columns, at least one; some take two columns, some none."""
    used = 0
    for at, char in enumerate(text):
        used += cell_len(char)
        if used > room:
            return max(1, at)
    return len(text)
