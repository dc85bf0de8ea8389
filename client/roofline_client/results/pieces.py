"""Answers that come in pieces: steps, timelines, raw data. Here they are held whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from roofline.answers.tables import TableChunk

from ..errors import ClientError
from . import frames
from .result import Shown, chosen, showable

if TYPE_CHECKING:
    import pandas as pd
    from roofline.answers.about import About

ROWS_SHOWN = 20


class Pieces(Shown):
    """record: all pieces. Tables: datasets by their names, then `columns`: dataset, column, unit, provenance
    and what to know about it."""

    def __init__(self, job: str, chunks: Iterable[TableChunk]) -> None:
        self.job = job
        self.record = list(chunks)

    @property
    def notes(self) -> list[str]:
        """What the server reports about the data."""
        return [note for chunk in self.record for note in chunk.notes]

    @property
    def tables(self) -> tuple[str, ...]:
        """Names that `to_pandas` takes."""
        return (*dict.fromkeys(chunk.dataset for chunk in self.record), "columns")

    def to_pandas(self, table: str = "") -> pd.DataFrame:
        """A dataset, or "columns"; without a name the first.

        Columns are named as in the CSV file (docs/steps.md), `.attrs["units"]` has their units. Times in ns
        are whole, on the server's UNIX clock; an absent number is NaN (of whole numbers <NA>). Raises
        ClientError for a table it does not have.
        """
        name = chosen(table, self.tables)
        if name != "columns":
            return frames.of_chunks(self._pieces(name))
        from ..export import DESCRIBED
        from ..tables.flat import Table

        rows = [
            (dataset, column.name, column.unit, column.provenance, column.reason)
            for dataset in self.tables[:-1]
            for column in frames.described(self._pieces(dataset)).values()
        ]
        return frames.frame(Table(DESCRIBED, rows, {}))

    def _pieces(self, dataset: str) -> list[TableChunk]:
        return [chunk for chunk in self.record if chunk.dataset == dataset]

    def text(self) -> Any:
        from rich.console import Group

        from ..tables import about
        from ..tables.columns import Column, Columns

        table = Columns(f"Job {self.job}", [Column("dataset"), Column("rows", right=True)])
        for dataset in self.tables[:-1]:
            table.add(dataset, f"{sum(chunk.rows for chunk in self._pieces(dataset)):,}")
        return Group(table, *about.notes(self.notes))

    def __repr__(self) -> str:
        rows = sum(chunk.rows for chunk in self.record)
        return f"<{type(self).__name__} of job {self.job}: {rows} rows>"


class StepsResult(Pieces):
    """One row per rank and step. Shows the newest rows; `to_pandas` has all of them."""

    def __init__(
        self, job: str, chunks: Iterable[TableChunk], about: Callable[[], About] | None = None
    ) -> None:
        """about: asked when a picture wants its caption."""
        super().__init__(job, chunks)
        self._about = about

    def text(self) -> Any:
        from ..tables import steps

        return steps.as_text(self.job, steps.newest(self.record, ROWS_SHOWN))

    def plot(self, ax: Any = None) -> Any:
        """The time of every step and its phases; arguments and errors as of `Result.plot`."""
        from .. import plots

        shown = plots.Steps(self.job, self.record, self._about() if self._about else None)
        if ax is None:
            return showable(plots.figure("steps", shown))
        plots.draw_on(ax, "steps", shown)
        return ax


class TimelineResult(Pieces):
    """What every rank did when, a stretch of time a row. Table: timeline."""

    def write(self, path: str) -> None:
        """A file for https://ui.perfetto.dev, as `roofline-client timeline`. Raises ClientError."""
        from pathlib import Path

        from ..files import written
        from ..trace import write_trace

        with written(Path(path)) as out:
            write_trace(self.record, out)


class ExportResult(Pieces):
    """The raw data of a job, a table a dataset: marks, samples, spans, kernel calls, events."""

    def write(self, folder: str, force: bool = False) -> dict[str, int]:
        """A CSV file a dataset, as `roofline-client export`; how many rows each has. Raises ClientError."""
        from pathlib import Path

        from ..export import write_folder

        if not self.record:
            raise ClientError(f"job {self.job} has no raw data")
        return write_folder(self.record, Path(folder), force)
