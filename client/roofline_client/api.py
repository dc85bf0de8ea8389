"""The client's only gRPC: asks, and turns answers into plain records and refusals into errors."""

from __future__ import annotations

from typing import Any

import grpc
from roofline.v1 import machine_pb2, query_pb2, query_pb2_grpc

from .errors import ClientError, NotFound, Refused, Unreachable
from .names import clean
from .records import (
    Alignment,
    Ceiling,
    Gap,
    Job,
    Part,
    Point,
    RankReport,
    Report,
    RoleReport,
    Roof,
    RoofLine,
    Source,
    Summary,
    Value,
)

DEFAULT_SERVER = "127.0.0.1:7642"
TIMEOUT_S = 60.0
MAX_ANSWER_BYTES = 64 << 20


def connect(server: str = DEFAULT_SERVER, timeout: float = TIMEOUT_S) -> Client:
    """A client of the server at HOST:PORT. Raises Refused for an address that cannot be one."""
    host, colon, port = server.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise Refused(f"server address {server!r} must be HOST:PORT, as {DEFAULT_SERVER}")
    return Client(server, timeout)


class Client:
    """Use as a context manager, or call close()."""

    def __init__(self, server: str, timeout: float) -> None:
        self._server = server
        self._timeout = timeout
        options = (("grpc.max_receive_message_length", MAX_ANSWER_BYTES), ("grpc.enable_http_proxy", 0))
        self._channel = grpc.insecure_channel(server, options=options)
        self._query = query_pb2_grpc.QueryStub(self._channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def jobs(self) -> list[Job]:
        """All jobs the server has heard of, newest first. Raises ClientError."""
        answer = self._ask(self._query.ListJobs, query_pb2.ListJobsRequest())
        return [
            Job(
                j.job,
                j.begin_ns,
                j.end_ns,
                j.ranks,
                {role.role: role.ranks for role in j.roles},
                list(j.hosts),
                j.running,
            )
            for j in answer.jobs
        ]

    def report(self, job: str, first_step: int | None = None, last_step: int | None = None) -> Report:
        """The report of a job, of all steps or of those from first_step to last_step.

        Raises NotFound for a job the server has not heard of, Unreachable, Refused.
        """
        try:
            request = query_pb2.GetReportRequest(job=job, first_step=first_step, last_step=last_step)
        except (ValueError, TypeError) as error:  # a number of more than 64 bits, text that is no UTF-8
            raise Refused(f"job {job!r}, steps {first_step} to {last_step}: {error}") from None
        return _report(self._ask(self._query.GetReport, request))

    def _ask(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise self._error(error) from None

    def _error(self, error: Any) -> ClientError:
        code, details = error.code(), clean(" ".join((error.details() or "").split()))
        if code == grpc.StatusCode.NOT_FOUND:
            return NotFound(f"{details} (see `roofline-client jobs`)")
        if code == grpc.StatusCode.UNAVAILABLE:
            advice = "start `roofline-server` there, or give --server HOST:PORT (or ROOFLINE_SERVER)"
            why = f" ({details})" if details else ""
            return Unreachable(f"no roofline-server answers at {self._server}{why}; {advice}")
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            advice = "it may be busy: ask again, or for fewer steps"
            return Unreachable(f"no answer from {self._server} within {self._timeout:g} s; {advice}")
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return Refused(f"what answers at {self._server} is no roofline-server of this version")
        return Refused(f"the server at {self._server} refuses: {details}")


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


def _roof(r: Any) -> Roof:
    lines = [
        RoofLine(line.name, line.label, line.kind, list(line.intensity), list(line.flops), line.binding)
        for line in r.lines
    ]
    return Roof(r.host, r.note, lines, [Ceiling(**_fields(c, Ceiling)) for c in r.ceilings])


def _point(p: Any) -> Point:
    provenance = _enum_name(machine_pb2.Provenance, p.provenance)
    return Point(**{**_fields(p, Point), "provenance": provenance})


def _report(r: Any) -> Report:
    return Report(
        job=r.job,
        begin_ns=r.begin_ns,
        end_ns=r.end_ns,
        mode=r.mode,
        running=r.running,
        first_step=r.first_step if r.HasField("first_step") else None,
        last_step=r.last_step if r.HasField("last_step") else None,
        roles=[RoleReport(x.role, x.ranks, list(x.hosts), _summary(x.summary)) for x in r.roles],
        ranks=[RankReport(**{**_fields(x, RankReport), "summary": _summary(x.summary)}) for x in r.ranks],
        roofs=[_roof(x) for x in r.roofs],
        points=[_point(x) for x in r.points],
        alignment=[Alignment(x.host, _value(x.error)) for x in r.alignment],
        gaps=[Gap(**_fields(x, Gap)) for x in r.gaps],
        notes=list(r.notes),
        sources=[
            Source(x.host, s.name, s.works, s.reason, s.advice, s.fills) for x in r.sources for s in x.sources
        ],
        parts=[Part(x.host, x.rank, x.instance, x.source, _values(x.values)) for x in r.parts],
    )
