"""The gRPC service clients ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import grpc
from roofline.convert import to_message
from roofline.v1 import models_pb2, query_pb2

from ..chunks import Chunk
from ..errors import BadRequest, UnknownHost, UnknownJob, unknown_job
from ..ingest.commands import Agents
from ..report.breakdown import breakdowns
from ..report.evidence import ranks as evidence
from ..report.evidence.gathering import mode_of
from ..report.job.build import build
from ..report.questions import Steps, Subject
from ..report.ranks.members import summarize_job
from ..report.roofline import rooflines
from ..report.steps import steps, timeline
from ..report.time_roofline import time_rooflines
from ..report.trajectory import trajectories
from ..report.waits import stragglers
from ..store import export
from ..store.raw_data import RawData
from ..store.store import Needed, Store
from ..store.view import JobView
from . import messages
from .bench_net import CannotBench, bench_net, running_on
from .machines import machine_versions

log = logging.getLogger(__name__)


class QueryService:
    """Implements roofline.v1.Query. Work is done in threads, so that ingest goes on meanwhile.

    Of an answer in chunks the next one is made when the one before is on its way: what is held is bounded.
    """

    def __init__(self, store: Store, agents: Agents) -> None:
        self._store = store
        self._agents = agents

    async def ListJobs(self, request: Any, context: Any) -> Any:
        return await asyncio.to_thread(self._list_jobs)

    async def GetReport(self, request: Any, context: Any) -> Any:
        return await _answer(self._report, request, context, "report")

    async def GetStragglers(self, request: Any, context: Any) -> Any:
        return await _answer(self._stragglers, request, context, "question for stragglers")

    async def GetSteps(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for message in _stream(self._steps, request, context, "table of steps"):
            yield message

    async def GetTimeline(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for message in _stream(self._timeline, request, context, "timeline"):
            yield message

    async def Export(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for message in _stream(self._export, request, context, "export"):
            yield message

    async def GetRoofline(self, request: Any, context: Any) -> Any:
        return await _answer(self._roofline, request, context, "roofline")

    async def GetTimeRoofline(self, request: Any, context: Any) -> Any:
        return await _answer(self._time_roofline, request, context, "time-based roofline")

    async def GetTrajectory(self, request: Any, context: Any) -> Any:
        return await _answer(self._trajectory, request, context, "trajectory")

    async def GetBreakdown(self, request: Any, context: Any) -> Any:
        return await _answer(self._breakdown, request, context, "breakdown")

    async def GetMachines(self, request: Any, context: Any) -> Any:
        return await _answer(self._machines, request, context, "question for machines")

    async def BenchNet(self, request: Any, context: Any) -> AsyncIterator[Any]:
        known = {machine.host for machine in self._store.name_ids.machines().values()}
        events = bench_net(self._agents, known, request, partial(running_on, self._store))
        try:
            async for event in events:
                yield event
        except CannotBench as error:
            await context.abort(error.code, str(error))
        finally:
            # A client that left ends this method amid a `yield`.
            await events.aclose()

    def _roofline(self, request: Any) -> Any:
        subject = _subject(request.subject)
        view = self._view(subject.job, rooflines.needed(request.kind, request.points))
        found = rooflines.roofline(self._store, view, subject, request.kind, request.points)
        return to_message(models_pb2.Roofline(), found)

    def _time_roofline(self, request: Any) -> Any:
        asked = time_rooflines.TimeRooflineQuery(
            _subject(request.subject), request.experiment, tuple(request.jobs), request.over, request.points
        )
        found = time_rooflines.time_roofline(self._store, asked)
        return to_message(models_pb2.TimeRoofline(), found)

    def _trajectory(self, request: Any) -> Any:
        asked = trajectories.TrajectoryQuery(
            request.experiment, tuple(request.jobs), request.over, tuple(request.roles), _range(request)
        )
        return to_message(models_pb2.Trajectory(), trajectories.trajectory(self._store, asked))

    def _breakdown(self, request: Any) -> Any:
        subject = _subject(request.subject)
        view = self._view(subject.job, breakdowns.NEEDED)
        return to_message(
            models_pb2.Breakdown(), breakdowns.breakdown(self._store, view, subject, request.by)
        )

    def _machines(self, request: Any) -> Any:
        versions = machine_versions(self._store, request.host, request.history)
        found = [to_message(models_pb2.MachineVersion(), version) for version in versions]
        return models_pb2.GetMachinesResponse(machines=found)

    def _list_jobs(self) -> Any:
        now = self._store.now_ns()
        found = [summarize_job(job, self._store.overview(job), now) for job in self._store.jobs()]
        newest_first = sorted(found, key=lambda job: job.end_ns, reverse=True)
        return query_pb2.ListJobsResponse(jobs=[to_message(query_pb2.Job(), job) for job in newest_first])

    def _report(self, request: Any) -> Any:
        return messages.report(
            build(self._view(request.job, evidence.NEEDED), _range(request), self._store.now_ns())
        )

    def _stragglers(self, request: Any) -> Any:
        view = self._view(request.job, stragglers.NEEDED)
        return to_message(query_pb2.Stragglers(), stragglers.find(view, _range(request)))

    def _steps(self, request: Any) -> Iterator[Chunk]:
        view = self._view(request.job, steps.NEEDED)
        return steps.steps_table(view, list(request.ranks), _range(request), mode_of(view))

    def _timeline(self, request: Any) -> Iterator[Chunk]:
        # What was not sealed when the view was made is in the raw data too: it is asked for later.
        view, raw = self._view(request.job, steps.NEEDED), self._raw(request.job)
        ranks, asked = list(request.ranks), _range(request)
        return timeline.timeline(view, raw, ranks, asked, mode_of(view), request.kernels)

    def _export(self, request: Any) -> Iterator[Chunk]:
        return export.export(self._raw(request.job))

    def _view(self, job: str, needed: Needed) -> JobView:
        view = self._store.view(job, needed)
        if view is None:
            raise self._unknown(job)
        return view

    def _raw(self, job: str) -> RawData:
        raw = self._store.raw(job)
        if raw is None:
            raise self._unknown(job)
        return raw

    def _unknown(self, job: str) -> UnknownJob:
        return unknown_job(job, self._store.jobs())


def _subject(message: Any) -> Subject:
    return Subject(message.job, _range(message), tuple(message.ranks))


def _range(request: Any) -> Steps:
    return Steps(
        request.first_step if request.HasField("first_step") else None,
        request.last_step if request.HasField("last_step") else None,
    )


async def _answer(work: Callable[[Any], Any], request: Any, context: Any, what: str) -> Any:
    try:
        return await asyncio.to_thread(work, request)
    except Exception as error:
        await _refuse(error, request, context, what)


async def _stream(
    work: Callable[[Any], Iterator[Chunk]], request: Any, context: Any, what: str
) -> AsyncIterator[Any]:
    try:
        chunks = await asyncio.to_thread(work, request)
        while (message := await asyncio.to_thread(_next, chunks)) is not None:
            yield message
    except Exception as error:
        await _refuse(error, request, context, what)


def _next(chunks: Iterator[Chunk]) -> Any:
    chunk = next(chunks, None)
    return None if chunk is None else messages.chunk(chunk)


async def _refuse(error: Exception, request: Any, context: Any, what: str) -> None:
    """End the call with what went wrong."""
    if isinstance(error, (UnknownJob, UnknownHost)):
        await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
    elif isinstance(error, BadRequest):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    log.error("%s failed", what, exc_info=error)
    await context.abort(grpc.StatusCode.INTERNAL, f"the {what} failed: {error}")
