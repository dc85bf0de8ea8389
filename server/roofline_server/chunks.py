"""Tables that are handed out in pieces of bounded size: what answers to bulk queries are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray
from roofline.answers.values import Provenance

MAX_ROWS = 50_000
MAX_BYTES = 3 << 20  # of one piece on the wire; gRPC takes 4 MiB


class Column(NamedTuple):
    """values: int64 (ABSENT), float64 (NaN) or texts as objects, one per row."""

    name: str
    values: NDArray[Any]
    unit: str = ""
    provenance: Provenance = Provenance.UNSPECIFIED
    reason: str = ""


class Chunk(NamedTuple):
    """Some rows of a dataset; all columns are equally long."""

    dataset: str
    columns: Sequence[Column]
    notes: Sequence[str] = ()

    @property
    def rows(self) -> int:
        return len(self.columns[0].values) if self.columns else 0


def split(chunk: Chunk) -> Iterator[Chunk]:
    """The rows in order, in pieces that fit a message; the notes go with the first. No rows: one piece."""
    width = 0  # bytes of a row at most
    for column in chunk.columns:
        if column.values.dtype.kind == "O":
            # A character has at most four bytes, the length of the text too.
            width += 4 * max(map(len, set(column.values.tolist())), default=0) + 4
        else:
            width += 8
    most = min(MAX_ROWS, max(1, MAX_BYTES // max(1, width)))
    for first in range(0, max(1, chunk.rows), most):
        columns = [c._replace(values=c.values[first : first + most]) for c in chunk.columns]
        yield Chunk(chunk.dataset, columns, () if first else chunk.notes)
