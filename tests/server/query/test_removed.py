"""What is answered of a job of which retention removed data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import models_pb2
from roofline.v1 import query_pb2 as pb
from roofline_server.query.answers import Answers
from roofline_server.records import CutLevel
from roofline_server.store.retention.plan import Policy

from ..builders import UNIX, Node, rank, training
from ..services import Served, serving

A = Node("a", UNIX, "hosta")
OF_A = training([rank(index=0), rank(index=1, pid=101)], stepping=(0, 1))


def run(work: Callable[[Served], Coroutine[Any, Any, None]], root: Path) -> None:
    async def served() -> None:
        async with serving(root) as server:
            A.greet(server.store)
            A.put(server.store, *OF_A)
            server.store.seal()
            await asyncio.wait_for(work(server), 60)

    asyncio.run(served())


def remove(server: Served, down_to: CutLevel) -> None:
    policy = Policy(0, deepest=down_to, times=dict.fromkeys(CutLevel, 1))
    server.store.retention.apply(policy, Answers(server.store).report_to_keep)


async def refusal(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    return caught.value.details() or ""


async def report(server: Served, **more: Any) -> Any:
    return await server.query.GetReport(pb.GetReportRequest(job="job", **more))


async def job(server: Served) -> Any:
    return (await server.query.ListJobs(pb.ListJobsRequest())).jobs[0]


def without_notes(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    copy.ClearField("notes")
    return copy


def test_report_is_the_same_without_raw_data_and_says_what_is_missing(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        before = await report(server)
        assert (await job(server)).removed == ""
        remove(server, CutLevel.RAW)
        after = await report(server)
        assert without_notes(after) == without_notes(before)
        assert after.notes[0].startswith("retention removed the raw data of job job (")
        assert after.notes[1:] == before.notes
        assert (await job(server)).removed == "raw data"
        some = await report(server, first_step=5, last_step=9)
        assert some.ranks[0].summary.values
        for call in (
            server.query.Export(pb.ExportRequest(job="job")),
            server.query.GetTimeline(pb.GetStepsRequest(job="job")),
        ):
            said = await refusal(call.read())
            assert "retention removed the raw data of job job" in said
            assert "report, steps, stragglers" in said
        chunk = await server.query.GetSteps(pb.GetStepsRequest(job="job")).read()
        assert chunk.rows
        asked = models_pb2.GetTimeRooflineRequest(subject={"job": "job"}, points="kernel")
        assert (await server.query.GetTimeRoofline(asked)).notes[0].startswith("retention removed")
        kernels = await server.query.GetRoofline(
            models_pb2.GetRooflineRequest(subject={"job": "job"}, kind="classic", points="kernel")
        )
        assert kernels.notes[0].startswith("retention removed")

    run(work, tmp_path)


def test_kept_report_is_that_of_before(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        before = await report(server)
        assert before.verdict.ByteSize()
        remove(server, CutLevel.STEPS)
        after = await report(server)
        assert without_notes(after) == without_notes(before)
        assert "was computed before that" in after.notes[0]
        assert (await report(server, first_screen=True)).verdict == before.verdict
        assert "whichever steps you ask for" in (await report(server, first_step=1)).notes[0]
        assert (await job(server)).removed == "raw data, steps"
        for call in (
            server.query.GetSteps(pb.GetStepsRequest(job="job")).read(),
            server.query.GetStragglers(pb.GetStragglersRequest(job="job")),
            server.query.GetBreakdown(models_pb2.GetBreakdownRequest(subject={"job": "job"})),
        ):
            assert "retention removed the step deltas of job job" in await refusal(call)

    run(work, tmp_path)


def test_list_of_jobs_is_what_stays_in_the_end(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        before = await job(server)
        remove(server, CutLevel.REPORT)
        assert "retention removed the report of job job" in await refusal(report(server))
        after = await job(server)
        assert after.removed == "all data"
        after.removed = ""
        assert after == before

    run(work, tmp_path)
