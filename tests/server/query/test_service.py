from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from roofline.v1 import models_pb2
from roofline.v1 import query_pb2 as pb
from roofline_server.chunks import Chunk
from roofline_server.store import export

from ..builders import UNIX, Node, S, rank, training
from ..services import Served, refusal, serving

A = Node("a", UNIX, "hosta")
OF_A = training([rank(index=0), rank(index=1, pid=101)], stepping=(0, 1))


def run(work: Callable[[Served], Coroutine[Any, Any, None]], root: Path) -> None:
    async def served() -> None:
        async with serving(root) as server:
            A.greet(server.store)
            await asyncio.wait_for(work(server), 60)

    asyncio.run(served())


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


def test_steps_that_a_job_does_not_have_are_not_found(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        none = {"job": "job", "first_step": 1000}
        calls = [
            server.query.GetReport(pb.GetReportRequest(**none)),
            server.query.GetStragglers(pb.GetStragglersRequest(**none)),
            server.query.GetSteps(pb.GetStepsRequest(**none)).read(),
            server.query.GetTimeline(pb.GetStepsRequest(**none)).read(),
        ]
        for call in calls:
            code, says = await refusal(call)
            assert code == grpc.StatusCode.NOT_FOUND
            assert "0 to 56" in says
        negative = pb.GetReportRequest(job="job", first_step=-5, last_step=3)
        assert (await refusal(server.query.GetReport(negative)))[0] == grpc.StatusCode.INVALID_ARGUMENT

    run(work, tmp_path)


def test_report_comes_over_the_wire_whole(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        report = await server.query.GetReport(pb.GetReportRequest(job="job"))
        assert (report.job, report.mode, report.running) == ("job", "synchronous", False)
        assert [r.rank for r in report.ranks] == ["worker:0", "worker:1"]
        values = report.ranks[0].summary.values
        assert values["steps"].value == 56  # the first is left out
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
        some = await server.query.ListJobs(pb.ListJobsRequest(newest=1))
        assert ([j.job for j in some.jobs], some.left_out) == (["newest"], 2)
        assert (await server.query.ListJobs(pb.ListJobsRequest(newest=3))).left_out == 0

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


# -- answers in pieces ---------------------------------------------------------------------------------------


async def pieces(call: Any) -> list[Any]:
    return [message async for message in call]


def ints_of(messages: list[Any], name: str) -> list[int]:
    columns = [column for message in messages for column in message.columns if column.name == name]
    return np.concatenate([np.frombuffer(column.ints, "<i8") for column in columns]).tolist()


def test_steps_come_over_the_wire(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        found = await pieces(
            server.query.GetSteps(pb.GetStepsRequest(job="job", ranks=["worker:1"], last_step=9))
        )
        assert {message.dataset for message in found} == {"steps"}
        assert ints_of(found, "step") == list(range(10))
        columns = {column.name: column for column in found[0].columns}
        assert list(columns["rank"].texts) == ["worker:1"] * 10
        assert columns["cpu_time"].unit == "s" and columns["cpu_time"].provenance == 1
        seconds = np.frombuffer(columns["cpu_time"].doubles, "<f8")
        assert seconds.tolist() == pytest.approx([0.315] * 10)
        assert sum(message.rows for message in found) == 10 and any("shorter" in n for n in found[0].notes)

    run(work, tmp_path)


def test_timeline_and_raw_data_come_over_the_wire(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        timeline = await pieces(server.query.GetTimeline(pb.GetStepsRequest(job="job", kernels=True)))
        assert {message.dataset for message in timeline} == {"timeline"}
        rows = {text for m in timeline for c in m.columns if c.name == "row" for text in c.texts}
        assert {"job", "clock", "rank", "steps", "kernels", "counter"} <= rows
        raw = await pieces(server.query.Export(pb.ExportRequest(job="job")))
        assert {"ranks", "marks", "calls", "samples_process", "samples_tcp"} <= {m.dataset for m in raw}

    run(work, tmp_path)


def test_stragglers_come_over_the_wire(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        found = await server.query.GetStragglers(pb.GetStragglersRequest(job="job"))
        assert found.job == "job" and found.verdict
        assert [r.rank for r in found.ranks] == ["worker:0", "worker:1"]
        assert found.ranks[0].values["step_time_mean"].value == pytest.approx(0.63)
        assert found.ranks[0].values["step_time_mean"].unit == "s"

    run(work, tmp_path)


def test_what_if_comes_over_the_wire(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        found = await server.query.GetWhatIf(pb.GetWhatIfRequest(job="job", ranks=4))
        assert (found.job, found.change) == ("job", "4 ranks instead of 2")
        assert found.sentence.startswith("with 4 ranks instead of 2: about ")
        assert 0 < found.step.low <= found.step.then.value <= found.step.high
        assert found.step.now.value == pytest.approx(0.63)
        assert found.basis and found.notes
        for wrong in (
            pb.GetWhatIfRequest(job="job"),
            pb.GetWhatIfRequest(job="job", servers=2),
            pb.GetWhatIfRequest(job="job", ranks=3, fix="worker:0"),
            pb.GetWhatIfRequest(job="job", bandwidth=-1.0),
            pb.GetWhatIfRequest(job="job", bandwidth=1e9, bandwidth_times=2.0),
        ):
            code, says = await refusal(server.query.GetWhatIf(wrong))
            assert (code, bool(says)) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        for unknown in (
            pb.GetWhatIfRequest(job="x", ranks=3),
            pb.GetWhatIfRequest(job="job", fix="worker:9"),
        ):
            code, _ = await refusal(server.query.GetWhatIf(unknown))
            assert code == grpc.StatusCode.NOT_FOUND

    run(work, tmp_path)


@pytest.mark.parametrize(
    ("method", "request_", "code"),
    [
        ("GetSteps", pb.GetStepsRequest(job="x"), grpc.StatusCode.NOT_FOUND),
        ("GetSteps", pb.GetStepsRequest(job="job", ranks=["ps:9"]), grpc.StatusCode.NOT_FOUND),
        (
            "GetSteps",
            pb.GetStepsRequest(job="job", first_step=2, last_step=1),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        ("GetTimeline", pb.GetStepsRequest(job="x"), grpc.StatusCode.NOT_FOUND),
        ("GetTimeline", pb.GetStepsRequest(job="job", ranks=["ps:9"]), grpc.StatusCode.NOT_FOUND),
        ("Export", pb.ExportRequest(job="x"), grpc.StatusCode.NOT_FOUND),
    ],
)
def test_question_in_pieces_that_cannot_be_answered(
    tmp_path: Path, method: str, request_: Any, code: grpc.StatusCode
) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await pieces(getattr(server.query, method)(request_))
        assert caught.value.code() == code

    run(work, tmp_path)


def test_who_leaves_amid_an_answer_leaves_the_server_alive(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        for _ in range(5):
            call = server.query.Export(pb.ExportRequest(job="job"))
            await call.read()
            call.cancel()
        assert len(await pieces(server.query.Export(pb.ExportRequest(job="job")))) > 4

    run(work, tmp_path)


def test_answer_that_fails_on_the_way_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)

        def fail(raw: Any) -> Any:
            yield Chunk("marks", [])
            raise OSError("disk on fire")

        with monkeypatch.context() as patched:
            patched.setattr(export, "export", fail)
            call = server.query.Export(pb.ExportRequest(job="job"))
            assert (await call.read()).dataset == "marks"
            with pytest.raises(grpc.aio.AioRpcError, match="disk on fire"):
                await call.read()

    run(work, tmp_path)


def test_roofline_comes_over_the_wire_whole(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        subject = models_pb2.Subject(job="job", first_step=1, ranks=["worker:1"])
        asked = models_pb2.GetRooflineRequest(subject=subject, kind="classic", points="rank")
        found = await server.query.GetRoofline(asked)
        assert (found.kind, list(found.about.jobs), len(found.roofs)) == ("classic", ["job"], 1)
        assert {line.name: line.binding for line in found.roofs[0].lines} == {
            "dram.triad": True,
            "peak.f32.512": True,
        }
        (point,) = found.points
        assert (point.label, point.level, point.bound) == ("worker:1", "minimum", "dram.triad")
        # worker:0 computes there too: half of the roof is worker:1's, though nobody asked for worker:0.
        assert point.headroom.value == pytest.approx(1e12 / 2 / (1000 / 0.63))
        assert point.flops_spread.count == 56 and point.words
        assert not point.flops_per_joule.HasField("value") and point.flops_per_joule.reason
        asked.kind = "square"
        code, says = await refusal(server.query.GetRoofline(asked))
        assert (code, "classic" in says) == (grpc.StatusCode.INVALID_ARGUMENT, True)

    run(work, tmp_path)


def test_efficiency_comes_over_the_wire(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        A.put(server.store, *OF_A)
        subject = models_pb2.Subject(job="job", ranks=["worker:1"])
        found = await server.query.GetEfficiency(
            models_pb2.GetEfficiencyRequest(subject=subject, flops_per_step=2000.0)
        )
        values = {one.name: one.value for one in found.whole.measures}
        assert [one.rank for one in found.ranks] == ["worker:1"]
        assert (values["model_flops"].value, values["executed_flops"].value) == (2000, 1000)
        assert sum(part.time.value for part in found.whole.waterfall) == pytest.approx(0.63 + 0.07 * 55 / 56)
        assert found.sentence.startswith("MFU ") and found.about.jobs == ["job"]
        wrong = models_pb2.GetEfficiencyRequest(subject=subject, flops_per_step=-1.0)
        code, says = await refusal(server.query.GetEfficiency(wrong))
        assert (code, bool(says)) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        code, _ = await refusal(
            server.query.GetEfficiency(models_pb2.GetEfficiencyRequest(subject={"job": "x"}))
        )
        assert code == grpc.StatusCode.NOT_FOUND

    run(work, tmp_path)
