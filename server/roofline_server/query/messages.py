"""The answers whose messages have another shape than their records: reports and pieces of tables."""

from __future__ import annotations

from itertools import groupby

from roofline.answers.report import Report
from roofline.convert import to_message
from roofline.v1 import query_pb2 as pb

from ..chunks import Chunk


def report(found: Report) -> pb.Report:
    """On the wire the sources of a node stand together."""
    message = to_message(pb.Report(), found, without=["sources"])
    for host, sources in groupby(found.sources, key=lambda source: source.host):
        of_node = message.sources.add(host=host)
        for source in sources:
            to_message(of_node.sources.add(), source, without=["host"])
    return message


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
