"""Tables that come in pieces: steps, timelines, raw data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .values import Provenance


class TableColumn(NamedTuple):
    """One column of a piece, a value per row; None (of a text: empty) is absent."""

    name: str
    unit: str
    provenance: Provenance
    reason: str  # what to know about the values
    values: Sequence[int | float | str | None]


class TableChunk(NamedTuple):
    """Some rows of a dataset: a piece of an answer that may be too large to hold."""

    dataset: str
    columns: list[TableColumn]
    notes: list[str]  # with the first piece

    @property
    def rows(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def records(self) -> Iterator[dict[str, int | float | str | None]]:
        """The rows, each by column name."""
        names = [column.name for column in self.columns]
        for row in zip(*(column.values for column in self.columns), strict=True):
            yield dict(zip(names, row, strict=True))
