"""A table that never cuts a cell: where columns do not fit next to each other they go on below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from .names import clean

GAP = 2  # blanks between columns
EMPTY = ("", "-")  # cells that say nothing
FOLDED = 24  # a column that may fold is at least so wide before it goes below
UNFOLDED = 60  # and at most so wide, also where lines may be as long as they are


class Column(NamedTuple):
    name: str
    right: bool = False
    folds: bool = False  # holds words; may be broken into several lines


class Columns:
    """Rows of cells under a title. A rich renderable; cells are plain text, whatever they hold."""

    def __init__(self, title: str, columns: Sequence[Column]) -> None:
        self.title = title
        self.columns = columns
        self.rows: list[tuple[list[str], str]] = []  # cells, style

    def add(self, *cells: str, style: str = "") -> None:
        self.rows.append(([clean(cell) for cell in cells], style))

    def without_empty(self) -> Columns | None:
        """This table without columns in which no row has anything; None where only the rows' names are
        left."""
        kept = [
            at
            for at in range(len(self.columns))
            if at == 0 or any(cells[at].strip() not in EMPTY for cells, _ in self.rows)
        ]
        if len(kept) < 2:
            return None
        made = Columns(self.title, [self.columns[at] for at in kept])
        made.rows = [([cells[at] for at in kept], style) for cells, style in self.rows]
        return made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text]:
        if self.title:
            # Next to the table, not of it: rich would fold it to the width of the table.
            yield Text(self.title, style="bold")
        widths = self._widths()
        room = options.max_width - max(widths[1:], default=0)
        # A long name leaves room for the widest number; it folds. A shorter one never does.
        begin = min(widths[0], max(FOLDED, room))
        name_folds = widths[0] > min(room, UNFOLDED + GAP)
        for number, group in enumerate(self._groups(widths, begin, options.max_width)):
            if number:
                yield Text("")
            table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
            for at in group:
                column = self.columns[at]
                # rich takes width from what may wrap, words and long names, before it touches numbers.
                words = name_folds if at == 0 else column.folds
                table.add_column(
                    Text(column.name),
                    justify="right" if column.right else "left",
                    no_wrap=not words,
                    overflow="fold",
                    max_width=UNFOLDED if words else None,
                )
            for cells, style in self.rows:
                table.add_row(*(Text(cells[at]) for at in group), style=style)
            yield table

    def _widths(self) -> list[int]:
        """How wide each column is with its gap, those that fold at most FOLDED."""
        widths = []
        for at, column in enumerate(self.columns):
            widest = max(cell_len(text) for text in (column.name, *(cells[at] for cells, _ in self.rows)))
            widths.append((min(widest, FOLDED) if column.folds else widest) + GAP)
        return widths

    def _groups(self, widths: list[int], begin: int, width: int) -> list[list[int]]:
        """Numbers of the columns of each table; the first column, the row's name, is in all of them. begin:
        columns of that."""
        groups, used = [[0]], begin
        for at in range(1, len(self.columns)):
            if used + widths[at] > width and len(groups[-1]) > 1:
                groups.append([0])
                used = begin
            groups[-1].append(at)
            used += widths[at]
        return groups
