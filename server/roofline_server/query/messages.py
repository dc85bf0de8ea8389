"""Pieces of tables as messages: their columns travel as bytes."""

from __future__ import annotations

from roofline.convert import to_message
from roofline.v1 import query_pb2 as pb

from ..chunks import Chunk


def chunk(table: Chunk) -> pb.TableChunk:
    """The values of columns as bytes where they are numbers."""
    message = pb.TableChunk(dataset=table.dataset, rows=table.rows, notes=table.notes)
    for column in table.columns:
        made = to_message(message.columns.add(), column, without=["values"])
        kind = column.values.dtype.kind
        if kind == "f":
            made.doubles = column.values.astype("<f8", copy=False).tobytes()
        elif kind == "i":
            made.ints = column.values.astype("<i8", copy=False).tobytes()
        else:
            made.texts.extend(column.values.tolist())
    return message
