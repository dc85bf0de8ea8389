from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import query_pb2 as pb

from .builders import UNIX, Node, S, rank, training
from .services import Served, serving

A = Node("a", UNIX, "hosta")
OF_A = training([rank(index=0), rank(index=1, pid=101)], stepping=(0, 1))


def run(work: Callable[[Served], Coroutine[Any, Any, None]], root: Path) -> None:
    async def served() -> None:
        async with serving(root) as server:
            A.greet(server.store)
            await asyncio.wait_for(work(server), 60)

    asyncio.run(served())


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


def test_unknown_job_is_not_found_with_a_hint(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        code, says = await refusal(server.query.GetReport(pb.GetReportRequest(job="nothing")))
        assert (code, "no jobs yet" in says) == (grpc.StatusCode.NOT_FOUND, True)
        A.put(server.store, *OF_A)
        code, says = await refusal(server.query.GetReport(pb.GetReportRequest(job="jbo")))
        assert (code, "known are job" in says) == (grpc.StatusCode.NOT_FOUND, True)

    run(work, tmp_path)


def test_bad_range_is_an_invalid_argument(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        code, says = await refusal(
            server.query.GetReport(pb.GetReportRequest(job="job", first_step=5, last_step=4))
        )
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert "5 to 4" in says

    run(work, tmp_path)


def test_report_comes_over_the_wire_whole(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        report = await server.query.GetReport(pb.GetReportRequest(job="job"))
        assert (report.job, report.mode, report.running) == ("job", "synchronous", False)
        assert [r.rank for r in report.ranks] == ["worker:0", "worker:1"]
        values = report.ranks[0].summary.values
        assert values["steps"].value == 57
        assert values["flops_per_step"].coverage == pytest.approx(1)
        assert not values["bytes_per_step.dram"].HasField("value")
        assert values["bytes_per_step.dram"].reason
        assert (report.roles[0].role, report.roles[0].ranks) == ("worker", 2)
        (roof,) = report.roofs
        assert {line.name: line.binding for line in roof.lines} == {"dram.triad": True, "peak.f32.512": True}
        assert {line.label for line in roof.lines} == {"DRAM triad 100.0 GB/s", "FP32 512-bit 4000.0 GFLOP/s"}
        assert [p.label for p in report.points] == ["worker:0", "worker:1"]
        assert report.alignment[0].error.value == pytest.approx(1.25e-4, rel=0.05)
        assert [s.name for s in report.sources[0].sources] == ["process", "tcp"]
        assert not report.HasField("first_step")

    run(work, tmp_path)


def test_range_of_steps_goes_both_ways(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        report = await server.query.GetReport(pb.GetReportRequest(job="job", first_step=0, last_step=0))
        assert report.ranks[0].summary.values["steps"].value == 1
        assert (report.HasField("first_step"), report.first_step, report.last_step) == (True, 0, 0)

    run(work, tmp_path)


def test_jobs_are_listed_newest_first(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        assert list((await server.query.ListJobs(pb.ListJobsRequest())).jobs) == []
        for job, begin in (("middle", 500), ("oldest", 100), ("newest", 900)):
            node = Node(job, UNIX, "hosta")
            node.greet(server.store)
            node.put(server.store, *training([rank(job)], batches=2, first_ns=begin * S))
        jobs = (await server.query.ListJobs(pb.ListJobsRequest())).jobs
        assert [j.job for j in jobs] == ["newest", "middle", "oldest"]
        assert (jobs[0].begin_ns, jobs[0].end_ns) == (900 * S + UNIX, 910 * S + UNIX)
        assert (jobs[0].ranks, list(jobs[0].hosts), jobs[0].running) == (1, ["hosta"], False)
        assert [(r.role, r.ranks) for r in jobs[0].roles] == [("worker", 1)]

    run(work, tmp_path)


def test_report_that_fails_says_so_and_the_server_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)

        def fail(*_: Any) -> Any:
            raise OSError("disk on fire")

        with monkeypatch.context() as patched:
            patched.setattr(server.store, "view", fail)
            code, says = await refusal(server.query.GetReport(pb.GetReportRequest(job="job")))
        assert (code, "disk on fire" in says) == (grpc.StatusCode.INTERNAL, True)
        assert (await server.query.GetReport(pb.GetReportRequest(job="job"))).job == "job"

    run(work, tmp_path)
