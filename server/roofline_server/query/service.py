"""The gRPC service clients ask."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import grpc
from roofline.answers.granted import SECONDS, SHARE

from ..errors import BadRequest, UnknownHost, UnknownJob, unknown_job
from ..ingest.commands import Agents
from ..records import Limit
from ..store.store import Store
from .agents import agent_states
from .answers import Answers
from .bench_net import CannotBench, bench_net, running_on
from .questions import Questions
from .trace_job import CannotTrace, TracedRank, chosen, running_ranks, trace

log = logging.getLogger(__name__)

# Bytes of an error. gRPC has room for 8 KiB, where one byte may take three; a longer text would end all other
# calls of the connection, too.
MOST_TEXT = 2000


class QueryService:
    """Implements roofline.v1.Query. Work is done in threads, so that ingest goes on meanwhile.

    Of an answer in chunks the next one is made when the one before is on its way: what is held is bounded.
    What is computed of the data of jobs waits for one of a few threads (see `Questions`); lists do not wait
    behind that.
    """

    def __init__(
        self,
        store: Store,
        agents: Agents,
        granted_share: Callable[[], float],
        limit: Callable[[], Limit | None] = lambda: None,
    ) -> None:
        """granted_share: of a core, what who asks again and again may take now. limit: which runs the caller
        of the method that runs now may see; None: all."""
        self._whole_store = store  # for admins alone
        self._agents = agents
        self._granted_share = granted_share
        self._limit = limit
        self._questions, self._lists = Questions(), Questions()

    @property
    def _answers(self) -> Answers:
        """For the caller: runs that it may not see are not there. Every method answers from these."""
        return Answers(self._whole_store.seen_by(self._limit()))

    async def ListJobs(self, request: Any, context: Any) -> Any:
        took = Took(partial(self._answers.jobs, request.newest))
        found = await self._lists.answer(("jobs", self._limit(), request.newest), took)
        self._send_cost(context, took)
        return found

    async def GetReport(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.report, request, context, "report")

    async def GetStragglers(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.stragglers, request, context, "question for stragglers")

    async def GetWhatIf(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.what_if, request, context, "what-if question")

    async def GetSteps(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for message in self._stream(self._answers.steps, request, context, "table of steps"):
            yield message

    async def GetStepOverview(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.step_overview, request, context, "overview of steps")

    async def GetNewest(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.newest, request, context, "question for news", self._lists)

    async def GetTimeline(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for message in self._stream(self._answers.timeline, request, context, "timeline"):
            yield message

    async def Export(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for message in self._stream(self._answers.export, request, context, "export"):
            yield message

    async def GetRoofline(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.roofline, request, context, "roofline")

    async def GetTimeRoofline(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.time_roofline, request, context, "time-based roofline")

    async def GetTrajectory(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.trajectory, request, context, "trajectory")

    async def GetBreakdown(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.breakdown, request, context, "breakdown")

    async def GetEfficiency(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.efficiency, request, context, "question for efficiency")

    async def GetComparison(self, request: Any, context: Any) -> Any:
        return await self._answer(self._answers.comparison, request, context, "comparison")

    async def GetMachines(self, request: Any, context: Any) -> Any:
        return await self._answer(
            self._answers.machines, request, context, "question for machines", self._lists
        )

    async def ListAgents(self, request: Any, context: Any) -> Any:
        links = self._agents.links()  # of the event loop, where they come and go
        return await asyncio.to_thread(agent_states, self._whole_store, links)

    async def BenchNet(self, request: Any, context: Any) -> AsyncIterator[Any]:
        known = {machine.host for machine in self._whole_store.name_ids.machines().values()}
        events = bench_net(self._agents, known, request, partial(running_on, self._whole_store))
        try:
            async for event in events:
                yield event
        except CannotBench as error:
            await context.abort(error.code, carried(str(error)))
        finally:
            # A client that left ends this method in the middle of a `yield`.
            await events.aclose()

    async def TraceJob(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            job, running = await self._answer(self._running_ranks, request, context, "trace")
            async with contextlib.aclosing(
                trace(self._agents, chosen(running, request.ranks, job), request.steps)
            ) as events:
                async for event in events:
                    yield event
        except CannotTrace as error:
            await context.abort(error.code, carried(str(error)))

    def _running_ranks(self, request: Any) -> tuple[str, list[TracedRank]]:
        store = self._whole_store
        job = store.run_called(request.job)
        if job is None:
            raise unknown_job(request.job, store.newest_jobs())
        view = store.view(job, {"steps": []}) or store.overview(job)
        return view.job, running_ranks(view, store.now_ns())

    async def _answer(
        self,
        work: Callable[[Any], Any],
        request: Any,
        context: Any,
        what: str,
        questions: Questions | None = None,
    ) -> Any:
        """questions: among which it waits; None: those about the data of jobs."""
        # Equal are those of callers who may see the same.
        key = (what, request.SerializeToString(deterministic=True), self._limit())
        took = Took(partial(work, request))
        try:
            found = await (questions or self._questions).answer(key, took)
        except Exception as error:
            await _refuse(error, request, context, what)
        self._send_cost(context, took)
        return found

    def _send_cost(self, context: Any, took: Took) -> None:
        cost = {SHARE: self._granted_share(), SECONDS: took.seconds}
        context.set_trailing_metadata(tuple((key, f"{value:.6f}") for key, value in cost.items()))

    async def _stream(
        self, work: Callable[[Any], Iterator[Any]], request: Any, context: Any, what: str
    ) -> AsyncIterator[Any]:
        try:
            answer = await self._questions.alone(work, request)
            while (message := await self._questions.alone(next, answer, None)) is not None:
                yield message
        except Exception as error:
            await _refuse(error, request, context, what)


class Took:
    """Work that is done at most once, and the CPU time (s) that it took."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self.seconds = work, 0.0

    def __call__(self) -> Any:
        begin = time.thread_time()
        try:
            return self._work()
        finally:
            self.seconds = time.thread_time() - begin


async def _refuse(error: Exception, request: Any, context: Any, what: str) -> None:
    """End the call with what went wrong."""
    if isinstance(error, (UnknownJob, UnknownHost)):
        await context.abort(grpc.StatusCode.NOT_FOUND, carried(str(error)))
    elif isinstance(error, BadRequest):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, carried(str(error)))
    log.error("%s failed", what, exc_info=error)
    await context.abort(grpc.StatusCode.INTERNAL, carried(f"the {what} failed: {error}"))


def carried(text: str) -> str:
    """As much of the text as an error has room for."""
    data = text.encode(errors="replace")
    return text if len(data) <= MOST_TEXT else data[:MOST_TEXT].decode(errors="ignore") + "..."
