"""Messages of the wire as plain records, field by field."""

from __future__ import annotations

import math
import sys
from array import array
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from roofline.v1 import machine_pb2

from .records import (
    Alignment,
    Cause,
    Fact,
    Gap,
    Imbalance,
    Job,
    Part,
    Point,
    RankReport,
    RankWaits,
    Report,
    RoleReport,
    Roof,
    ServerLoad,
    Source,
    Stragglers,
    Summary,
    TableChunk,
    TableColumn,
    Value,
)

ABSENT = -(2**63)  # of whole numbers
ENUMS = {"Provenance": machine_pb2.Provenance, "Scope": machine_pb2.Scope}
R = TypeVar("R", bound=tuple[Any, ...])


def job(j: Any) -> Job:
    roles = {role.role: role.ranks for role in j.roles}
    return Job(j.job, j.begin_ns, j.end_ns, j.ranks, roles, list(j.hosts), j.running, dict(j.tags))


def _enum_name(enum: Any, number: int) -> str:
    """ "measured" from PROVENANCE_MEASURED; "" when unspecified or of a newer server."""
    if number not in enum.values():
        return ""
    name = str(enum.Name(number)).partition("_")[2].lower()
    return "" if name == "unspecified" else name


def _value(v: Any) -> Value:
    return Value(
        v.value if v.HasField("value") else None,
        v.unit,
        _enum_name(machine_pb2.Provenance, v.provenance),
        _enum_name(machine_pb2.Scope, v.scope),
        v.coverage if v.HasField("coverage") else None,
        v.reason,
    )


def _summary(s: Any) -> Summary:
    return Summary(_values(s.values), s.bound, s.bound_reason)


def _values(values: Any) -> dict[str, Value]:
    return {name: _value(values[name]) for name in sorted(values)}


def _fields(message: Any, record: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in record._fields}


def record(kind: type[R], message: Any) -> R:
    """A message as the plain record of its kind, which has fields of the same names.

    What is `X | None` in the record is None where the message does not have it; an enum becomes its name.
    """
    return kind(**{name: _read(hint, message, name) for name, hint in _hints(kind).items()})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(hint: Any, message: Any, name: str) -> Any:
    value, inner = getattr(message, name), get_args(hint)
    if get_origin(hint) is list:
        return [_one(inner[0], item) for item in value]
    if get_origin(hint) is dict:
        return {key: _one(inner[1], value[key]) for key in sorted(value)}
    if type(None) in inner:
        return _one(inner[0], value) if message.HasField(name) else None
    enum = message.DESCRIPTOR.fields_by_name[name].enum_type
    return _enum_name(ENUMS[enum.name], value) if enum else _one(hint, value)


def _one(hint: Any, value: Any) -> Any:
    return record(hint, value) if hasattr(hint, "_fields") else value


def _point(p: Any) -> Point:
    provenance = _enum_name(machine_pb2.Provenance, p.provenance)
    return Point(**{**_fields(p, Point), "provenance": provenance})


def _rank(r: Any) -> RankReport:
    return RankReport(**{**_fields(r, RankReport), "pid": r.pid or None, "summary": _summary(r.summary)})


def report(r: Any) -> Report:
    return Report(
        job=r.job,
        begin_ns=r.begin_ns,
        end_ns=r.end_ns,
        mode=r.mode,
        running=r.running,
        first_step=r.first_step if r.HasField("first_step") else None,
        last_step=r.last_step if r.HasField("last_step") else None,
        roles=[RoleReport(x.role, x.ranks, list(x.hosts), _summary(x.summary)) for x in r.roles],
        ranks=[_rank(x) for x in r.ranks],
        roofs=[record(Roof, x) for x in r.roofs],
        points=[_point(x) for x in r.points],
        alignment=[Alignment(x.host, _value(x.error)) for x in r.alignment],
        gaps=[Gap(**_fields(x, Gap)) for x in r.gaps],
        notes=list(r.notes),
        sources=[
            Source(x.host, s.name, s.works, s.reason, s.advice, s.fills) for x in r.sources for s in x.sources
        ],
        parts=[Part(x.host, x.rank, x.instance, x.source, _values(x.values)) for x in r.parts],
        facts=[Fact(x.name, x.value, list(x.ranks)) for x in r.facts],
        tags=dict(r.tags),
        verdicts=list(r.verdicts),
    )


def stragglers(s: Any) -> Stragglers:
    return Stragglers(
        job=s.job,
        mode=s.mode,
        verdict=s.verdict,
        barrier=s.barrier,
        causes=[
            Cause(
                **{
                    **_fields(x, Cause),
                    "cost": _value(x.cost),
                    "share": _value(x.share),
                    "evidence": list(x.evidence),
                }
            )
            for x in s.causes
        ],
        ranks=[RankWaits(x.rank, x.role, x.host, _values(x.values)) for x in s.ranks],
        imbalance=[
            Imbalance(**{**_fields(x, Imbalance), "wait": _value(x.wait), "share": _value(x.share)})
            for x in s.imbalance
        ],
        servers=[ServerLoad(x.rank, x.host, _values(x.values)) for x in s.servers],
        notes=list(s.notes),
    )


def chunk(c: Any) -> TableChunk:
    """Raises ValueError when its columns are not as long as it says."""
    columns = [_column(x) for x in c.columns]
    for column in columns:
        if len(column.values) != c.rows:
            raise ValueError(f"column {column.name!r} has {len(column.values)} values of {c.rows} rows")
    return TableChunk(c.dataset, columns, list(c.notes))


def _column(c: Any) -> TableColumn:
    values: list[Any] = list(c.texts)
    if c.ints:
        values = [None if v == ABSENT else v for v in _unpacked("q", c.ints)]
    elif c.doubles:
        values = [None if math.isnan(v) else v for v in _unpacked("d", c.doubles)]
    return TableColumn(c.name, c.unit, _enum_name(machine_pb2.Provenance, c.provenance), c.reason, values)


def _unpacked(kind: str, data: bytes) -> array[Any]:
    values = array(kind)
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
