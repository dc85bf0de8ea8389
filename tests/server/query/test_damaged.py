"""Files that the catalog knows and that are gone, cut short, or cannot be read: every question has an answer
of what there is, or a refusal that says why not; what is missing is said."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import models_pb2
from roofline.v1 import query_pb2 as pb

from ..builders import UNIX, Node, S, open_store, rank, spans, training
from ..services import Served, serving
from ..store.check.stores import flip

JOB = "job"
SUBJECT = {"job": JOB}
OF_NO_FILE = {"BenchNet", "GetNewest", "ListAgents", "TraceJob"}  # have nothing to do with what is stored
# Method -> what it is asked, once for each way in which it reads different data.
QUESTIONS: dict[str, list[Any]] = {
    "ListJobs": [pb.ListJobsRequest()],
    "GetReport": [pb.GetReportRequest(job=JOB), pb.GetReportRequest(job=JOB, first_screen=True)],
    "GetSteps": [pb.GetStepsRequest(job=JOB), pb.GetStepsRequest(job=JOB, first_step=3, last_step=9)],
    "GetStepOverview": [
        pb.GetStepOverviewRequest(job=JOB),
        pb.GetStepOverviewRequest(job=JOB, first_step=3, last_step=9, last_rank=0),
    ],
    "GetStragglers": [pb.GetStragglersRequest(job=JOB)],
    "GetWhatIf": [
        pb.GetWhatIfRequest(job=JOB, ranks=4),
        pb.GetWhatIfRequest(job=JOB, bandwidth_times=2),
        pb.GetWhatIfRequest(job=JOB, fix="worker:0"),
    ],
    "GetTimeline": [
        pb.GetStepsRequest(job=JOB, kernels=True),
        pb.GetStepsRequest(job=JOB, kernels=True, ranks=["worker:0"], first_step=3, last_step=9),
    ],
    "Export": [pb.ExportRequest(job=JOB)],
    "GetRoofline": [
        models_pb2.GetRooflineRequest(subject=SUBJECT, kind=kind, points=points)
        for kind, points in (
            *(("classic", points) for points in ("role", "rank", "step", "phase", "kernel")),
            ("hierarchical", "kernel"),
            ("network", "role"),
        )
    ],
    "GetTimeRoofline": [
        models_pb2.GetTimeRooflineRequest(subject=SUBJECT, points="kernel"),
        models_pb2.GetTimeRooflineRequest(subject=SUBJECT, points="step"),
        models_pb2.GetTimeRooflineRequest(jobs=[JOB, "other"], over="ranks", points="kernel"),
    ],
    "GetTrajectory": [models_pb2.GetTrajectoryRequest(jobs=[JOB, "other"], over="ranks")],
    "GetBreakdown": [models_pb2.GetBreakdownRequest(subject=SUBJECT, by=by) for by in ("role", "rank")],
    "GetEfficiency": [models_pb2.GetEfficiencyRequest(subject=SUBJECT)],
    "GetMachines": [models_pb2.GetMachinesRequest(history=True)],
    "GetComparison": [
        pb.GetComparisonRequest(first=JOB, second="other"),
        pb.GetComparisonRequest(first="other", second=JOB),
    ],
}


def fill(root: Path) -> None:
    """Two jobs of one node, in two sealings."""
    store, node = open_store(root), Node("a", UNIX)
    node.greet(store)
    own = [rank(index=0), rank(index=1, pid=101), rank(role="ps", pid=102)]
    sent = training(own, stepping=(0, 1), bordered=(1,))
    other = training([rank("other", pid=300)], first_sequence=100)
    for one in (*sent, *other):
        at = one.begin_ns
        one.spans.MergeFrom(spans([(0, "phase.input", at + S, at + S + 9, 7, 1)]))
    node.put(store, *sent[:4], *other[:4])
    store.seal()
    node.put(store, *sent[4:], *other[4:])
    store.seal()
    store.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    fill(root)
    return root


# -- ways to spoil a file ------------------------------------------------------------------------------


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_unreadable(path: Path) -> None:
    """For root too."""
    path.unlink()
    path.symlink_to(path)


WAYS: list[Callable[[Path], None]] = [Path.unlink, cut, empty, make_folder, make_unreadable, flip]
DATASETS = (
    *("calls", "events", "marks", "samples_process", "samples_tcp", "spans"),
    *("steps", "steps_kernels", "steps_process", "steps_spans", "steps_tcp"),
)
RAW, DERIVED = DATASETS[:6], DATASETS[6:]


def cases() -> Iterator[Any]:
    """Of all files in every way; of those of one dataset in one, in the others where there is time."""
    for way in WAYS:
        yield pytest.param(DATASETS, way, id=f"all-{way.__name__}")
    for number, dataset in enumerate(DATASETS):
        for way in WAYS:
            slow = () if way is WAYS[number % len(WAYS)] else pytest.mark.slow
            yield pytest.param((dataset,), way, id=f"{dataset}-{way.__name__}", marks=slow)
    for name, datasets in (("raw", RAW), ("derived", DERIVED)):
        yield pytest.param(datasets, Path.unlink, id=name, marks=pytest.mark.slow)


# -- questions -----------------------------------------------------------------------------------------


async def asked(call: Any) -> list[Any]:
    """The messages of an answer. Raises what gRPC does."""
    return [message async for message in call] if hasattr(call, "read") else [await call]


def said(messages: list[Any]) -> str:
    """What an answer says of what is missing."""
    found = [note for message in messages for note in getattr(message, "notes", ())]
    if messages and isinstance(messages[0], pb.Report):
        found += messages[0].verdict.quality
    return " ".join(found)


def serve(root: Path, work: Callable[[Served], Any]) -> Any:
    async def served() -> Any:
        async with serving(root) as server:
            return await asyncio.wait_for(work(server), 120)

    return asyncio.run(served())


def test_all_questions_are_asked_here() -> None:
    methods = pb.DESCRIPTOR.services_by_name["Query"].methods_by_name
    assert set(methods) == QUESTIONS.keys() | OF_NO_FILE


@pytest.mark.parametrize(("datasets", "spoil"), list(cases()))
def test_every_question_is_answered_as_far_as_files_can_be_read(
    sound: Path, tmp_path: Path, datasets: tuple[str, ...], spoil: Callable[[Path], None]
) -> None:
    root = tmp_path / "data"
    shutil.copytree(sound, root)
    assert sorted(path.name for path in (root / "segments/job-job").iterdir()) == sorted(DATASETS)
    for dataset in datasets:
        for path in sorted(root.glob(f"segments/*/{dataset}/*.parquet")):
            spoil(path)

    async def work(server: Served) -> None:
        for method, requests in QUESTIONS.items():
            for request in requests:
                try:
                    messages = await asked(getattr(server.query, method)(request))
                except grpc.aio.AioRpcError as error:
                    # That it has no such steps, where those that it had cannot be read.
                    assert error.code() == grpc.StatusCode.NOT_FOUND, (method, request, error.details())
                    assert "cannot be read" in error.details()
                    continue
                if datasets == DATASETS and method not in ("ListJobs", "GetMachines"):
                    assert "cannot be read" in said(messages), (method, request)

    serve(root, work)


def test_report_without_any_file_says_that_steps_cannot_be_read(sound: Path, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(sound, root)
    shutil.rmtree(root / "segments/job-job")

    async def work(server: Served) -> None:
        report = await server.query.GetReport(pb.GetReportRequest(job=JOB))
        values = report.ranks[0].summary.values
        assert "cannot be read" in values["step_time_median"].reason
        assert "cannot be read" in values["flops_per_step"].reason
        (message,) = await asked(server.query.GetSteps(pb.GetStepsRequest(job=JOB)))
        assert any("no steps of" in note and "cannot be read" in note for note in message.notes), (
            message.notes
        )
        other = await server.query.GetReport(pb.GetReportRequest(job="other"))
        assert "cannot be read" not in said([other])

    serve(root, work)


def test_export_has_what_there_is_and_a_list_of_what_is_missing(sound: Path, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(sound, root)
    first, second = sorted(root.glob("segments/job-job/marks/*"))
    first.unlink()
    for path in root.glob("segments/job-job/calls/*"):
        path.unlink()

    async def work(server: Served) -> None:
        rows: dict[str, int] = {}
        columns: dict[str, list[str]] = {}
        for chunk in await asked(server.query.Export(pb.ExportRequest(job=JOB))):
            rows[chunk.dataset] = rows.get(chunk.dataset, 0) + chunk.rows
            columns |= {column.name: list(column.texts) for column in chunk.columns}
        raw = server.store.raw(JOB)
        assert raw
        known = {segment.path: segment.rows for segment in raw.segments}
        assert rows["marks"] == known[str(second.relative_to(root))] > 0
        assert rows["samples_process"] == sum(n for p, n in known.items() if "/samples_process/" in p)
        assert "calls" not in rows
        assert rows["missing"] == 3
        assert sorted(columns["of_dataset"]) == ["calls", "calls", "marks"]
        assert str(first.relative_to(root)) in columns["file"]
        assert all("No such file" in why for why in columns["why"])

    serve(root, work)
