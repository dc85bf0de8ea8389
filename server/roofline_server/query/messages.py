"""Plain records as messages of the wire, field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.v1 import machine_pb2, values_pb2
from roofline.v1 import query_pb2 as pb

from ..chunks import Chunk, Column
from ..model.summary import Summary
from ..model.values import Value
from ..report.records import JobSummary, Report


def filled(message: Any, record: Any) -> Any:
    """The message with the fields of a plain record of the same names; what is None is left unset."""
    for name, field in record._asdict().items():
        if field is None:
            continue
        target = getattr(message, name)
        if hasattr(field, "_fields"):
            target.SetInParent()
            filled(target, field)
        elif isinstance(field, Mapping):
            for key, item in field.items():
                if hasattr(item, "_fields"):
                    filled(target[key], item)
                else:
                    target[key] = item
        elif isinstance(field, (list, tuple)):
            for item in field:
                if hasattr(item, "_fields"):
                    filled(target.add(), item)
                else:
                    target.append(item)
        else:
            setattr(message, name, field)
    return message


def jobs(found: Sequence[JobSummary]) -> Any:
    return pb.ListJobsResponse(jobs=[_job(job) for job in found])


def _job(j: JobSummary) -> Any:
    return pb.Job(
        job=j.job,
        begin_ns=j.begin_ns,
        end_ns=j.end_ns,
        ranks=sum(j.roles.values()),
        roles=[pb.RoleCount(role=role, ranks=count) for role, count in j.roles.items()],
        hosts=j.hosts,
        running=j.running,
        tags=j.tags,
    )


def chunk(table: Chunk) -> Any:
    columns = [_column(column) for column in table.columns]
    return pb.TableChunk(dataset=table.dataset, rows=table.rows, columns=columns, notes=table.notes)


def _column(column: Column) -> Any:
    said: dict[str, Any] = {**column._asdict(), "provenance": int(column.provenance)}
    del said["values"]
    message = pb.Column(**said)
    kind = column.values.dtype.kind
    if kind == "f":
        message.doubles = column.values.astype("<f8", copy=False).tobytes()
    elif kind == "i":
        message.ints = column.values.astype("<i8", copy=False).tobytes()
    else:
        message.texts.extend(column.values.tolist())
    return message


def stragglers(found: Any) -> Any:
    """found: a record with the fields of the message Stragglers."""
    return pb.Stragglers(
        job=found.job,
        mode=found.mode,
        verdict=found.verdict,
        barrier=found.barrier,
        causes=[_with_values(pb.Cause, cause) for cause in found.causes],
        ranks=[_keyed(pb.RankWaits, rank) for rank in found.ranks],
        imbalance=[_with_values(pb.Imbalance, stretch) for stretch in found.imbalance],
        servers=[_keyed(pb.ServerLoad, server) for server in found.servers],
        notes=found.notes,
    )


def _with_values(kind: Any, record: Any) -> Any:
    """A message of the record's fields, those that are Values among them."""
    fields = record._asdict()
    return kind(**{n: _value(field) if isinstance(field, Value) else field for n, field in fields.items()})


def _keyed(kind: Any, record: Any) -> Any:
    """The same of a record whose field `values` is a map."""
    fields = record._asdict()
    message = kind(**{name: field for name, field in fields.items() if name != "values"})
    _fill(message.values, fields["values"])
    return message


def _fill(target: Any, values: Mapping[str, Value]) -> None:
    for name, value in values.items():
        target[name].CopyFrom(_value(value))


def report(found: Report) -> Any:
    return pb.Report(
        job=found.job,
        begin_ns=found.begin_ns,
        end_ns=found.end_ns,
        mode=found.mode,
        running=found.running,
        first_step=found.first_step,
        last_step=found.last_step,
        roles=[
            pb.RoleReport(role=r.role, ranks=r.ranks, hosts=r.hosts, summary=_summary(r.summary))
            for r in found.roles
        ],
        ranks=[pb.RankReport(**{**r._asdict(), "summary": _summary(r.summary)}) for r in found.ranks],
        roofs=[filled(values_pb2.Roof(), roof) for roof in found.roofs],
        points=[pb.Point(**{**p._asdict(), "provenance": int(p.provenance)}) for p in found.points],
        alignment=[pb.Alignment(host=host, error=_value(error)) for host, error in found.alignment],
        gaps=[pb.Gap(**gap._asdict()) for gap in found.gaps],
        notes=found.notes,
        sources=[
            pb.SourceReport(host=host, sources=[machine_pb2.SourceStatus(**s._asdict()) for s in sources])
            for host, sources in found.sources
        ],
        parts=[_keyed(pb.PartReport, part) for part in found.parts],
        facts=[pb.Fact(**fact._asdict()) for fact in found.facts],
        tags=found.tags,
        verdicts=found.verdicts,
    )


def _summary(summary: Summary) -> Any:
    message = pb.Summary(bound=summary.bound, bound_reason=summary.bound_reason)
    _fill(message.values, summary.values)
    return message


def _value(value: Value) -> Any:
    return values_pb2.Value(
        **{**value._asdict(), "provenance": int(value.provenance), "scope": int(value.scope)}
    )
