"""The gRPC service clients ask: turns reports into messages."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import grpc
from roofline.v1 import machine_pb2
from roofline.v1 import query_pb2 as pb

from .errors import BadRequest, UnknownJob
from .model.roofline import Line
from .model.summary import Summary
from .model.values import Value
from .records import Ceiling
from .report.build import build
from .report.evidence import NEEDED
from .report.members import summarize_job
from .report.records import PartReport, Report, RoofReport, Steps
from .store.store import Store

log = logging.getLogger(__name__)


class QueryService:
    """Implements roofline.v1.Query. Work is done in threads, so that ingest goes on meanwhile."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def ListJobs(self, request: Any, context: Any) -> Any:
        return await asyncio.to_thread(self._list_jobs)

    def _list_jobs(self) -> Any:
        jobs = []
        for job in self._store.jobs():
            view = self._store.overview(job)
            jobs.append(summarize_job(job, view, time.time_ns()))
        jobs.sort(key=lambda job: job.end_ns, reverse=True)
        return pb.ListJobsResponse(
            jobs=[
                pb.Job(
                    job=j.job,
                    begin_ns=j.begin_ns,
                    end_ns=j.end_ns,
                    ranks=sum(j.roles.values()),
                    roles=[pb.RoleCount(role=role, ranks=count) for role, count in j.roles.items()],
                    hosts=j.hosts,
                    running=j.running,
                )
                for j in jobs
            ]
        )

    async def GetReport(self, request: Any, context: Any) -> Any:
        try:
            return await asyncio.to_thread(self._report, request)
        except UnknownJob as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        except BadRequest as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except Exception as error:
            log.exception("report of job %s failed", request.job)
            await context.abort(grpc.StatusCode.INTERNAL, f"the report failed: {error}")

    def _report(self, request: Any) -> Any:
        view = self._store.view(request.job, NEEDED)
        if view is None:
            known = sorted(self._store.jobs(), reverse=True)
            hint = f"known are {', '.join(known[:5])}" if known else "it has no jobs yet"
            raise UnknownJob(f"this server has no job {request.job!r}; {hint}")
        steps = Steps(
            request.first_step if request.HasField("first_step") else None,
            request.last_step if request.HasField("last_step") else None,
        )
        return _message(build(view, steps))


def _message(report: Report) -> Any:
    return pb.Report(
        job=report.job,
        begin_ns=report.begin_ns,
        end_ns=report.end_ns,
        mode=report.mode,
        running=report.running,
        first_step=report.first_step,
        last_step=report.last_step,
        roles=[
            pb.RoleReport(role=r.role, ranks=r.ranks, hosts=r.hosts, summary=_summary(r.summary))
            for r in report.roles
        ],
        ranks=[pb.RankReport(**{**r._asdict(), "summary": _summary(r.summary)}) for r in report.ranks],
        roofs=[_roof(roof) for roof in report.roofs],
        points=[pb.Point(**{**p._asdict(), "provenance": int(p.provenance)}) for p in report.points],
        alignment=[pb.Alignment(host=host, error=_value(error)) for host, error in report.alignment],
        gaps=[pb.Gap(**gap._asdict()) for gap in report.gaps],
        notes=report.notes,
        sources=[
            pb.SourceReport(host=host, sources=[machine_pb2.SourceStatus(**s._asdict()) for s in sources])
            for host, sources in report.sources
        ],
        parts=[_part(part) for part in report.parts],
    )


def _summary(summary: Summary) -> Any:
    message = pb.Summary(bound=summary.bound, bound_reason=summary.bound_reason)
    for name, value in summary.values.items():
        message.values[name].CopyFrom(_value(value))
    return message


def _part(part: PartReport) -> Any:
    message = pb.PartReport(host=part.host, rank=part.rank, instance=part.instance, source=part.source)
    for name, value in part.values.items():
        message.values[name].CopyFrom(_value(value))
    return message


def _value(value: Value) -> Any:
    return pb.Value(**{**value._asdict(), "provenance": int(value.provenance), "scope": int(value.scope)})


def _roof(roof: RoofReport) -> Any:
    return pb.Roof(
        host=roof.host,
        note=roof.note,
        lines=[_line(line) for line in roof.lines],
        ceilings=[machine_pb2.Ceiling(**c._asdict()) for c in roof.ceilings],
    )


def _line(line: Line) -> Any:
    return pb.RoofLine(
        name=line.ceiling.name,
        label=_label(line.ceiling),
        kind=line.ceiling.kind,
        intensity=line.intensity,
        flops=line.flops,
        binding=line.binding,
    )


def _label(ceiling: Ceiling) -> str:
    if ceiling.kind == "memory":
        return f"{ceiling.level.upper()} {ceiling.name.partition('.')[2]} {ceiling.value / 1e9:.1f} GB/s"
    width = "scalar" if ceiling.width <= 64 else f"{ceiling.width}-bit"
    return f"FP{ceiling.precision[1:]} {width} {ceiling.value / 1e9:.1f} GFLOP/s"
