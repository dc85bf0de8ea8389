"""The answers whose messages have another shape than their records: reports and pieces of tables."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from roofline.answers.report import Report
from roofline.convert import to_message
from roofline.v1 import query_pb2 as pb

from ..chunks import Chunk, Column


def report(found: Report) -> pb.Report:
    """On the wire the sources of a node stand together."""
    message = to_message(pb.Report(), found, without=["sources"])
    for host, sources in groupby(found.sources, key=lambda source: source.host):
        of_node = message.sources.add(host=host)
        for source in sources:
            to_message(of_node.sources.add(), source, without=["host"])
    return message


def chunk(table: Chunk) -> pb.TableChunk:
    columns = [_column(column) for column in table.columns]
    return pb.TableChunk(dataset=table.dataset, rows=table.rows, columns=columns, notes=table.notes)


def _column(column: Column) -> Any:
    """The values as bytes where they are numbers."""
    message = to_message(pb.Column(), column, without=["values"])
    kind = column.values.dtype.kind
    if kind == "f":
        message.doubles = column.values.astype("<f8", copy=False).tobytes()
    elif kind == "i":
        message.ints = column.values.astype("<i8", copy=False).tobytes()
    else:
        message.texts.extend(column.values.tolist())
    return message
