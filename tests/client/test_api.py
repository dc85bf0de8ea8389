"""What a server says arrives whole; what it refuses becomes one of our errors."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from roofline.answers.model_flops import ModelFlops
from roofline.v1 import models_pb2, values_pb2
from roofline.v1 import query_pb2 as pb
from roofline_client import Client, ClientError, NotFound, Refused, Unreachable, connect
from roofline_client.connection import Connection
from roofline_client.errors import UsageError

from .fake_server import answer, chunks, never_answering, refuse, serving
from .messages import arrived, fill, sent


def test_every_field_of_a_report_arrives() -> None:
    """Fails for a field that was added to the .proto and forgotten in its record."""
    message = fill(pb.Report(), itertools.count(1))
    with serving(report=answer(message)) as asked, connect(asked.address) as client:
        report = client.report("42")
    assert set(arrived("", report)) == set(sent(message))


def test_every_field_of_a_job_arrives() -> None:
    message = fill(pb.ListJobsResponse(), itertools.count(1))
    with serving(jobs=answer(message)) as asked, connect(asked.address) as client:
        first, second = client.jobs()
    job = message.jobs[0]
    assert first._asdict() == {
        **{f.name: getattr(job, f.name) for f in job.DESCRIPTOR.fields},
        "roles": {r.role: r.ranks for r in job.roles},
        "hosts": list(job.hosts),
        "tags": dict(job.tags),
    }
    assert second.job == message.jobs[1].job


MODELS: dict[str, tuple[Any, Callable[[Client], Any]]] = {
    "GetRoofline": (models_pb2.Roofline, lambda client: client.roofline("42")),
    "GetTimeRoofline": (models_pb2.TimeRoofline, lambda client: client.time_roofline("42")),
    "GetTrajectory": (models_pb2.Trajectory, lambda client: client.trajectory("scaling")),
    "GetBreakdown": (models_pb2.Breakdown, lambda client: client.breakdown("42")),
    "GetEfficiency": (models_pb2.Efficiency, lambda client: client.efficiency("42")),
    "GetStragglers": (pb.Stragglers, lambda client: client.stragglers("42")),
    "GetWhatIf": (pb.WhatIf, lambda client: client.what_if("42", ranks=3)),
}


@pytest.mark.parametrize("method", MODELS)
def test_every_field_of_an_answer_arrives(method: str) -> None:
    kind, ask = MODELS[method]
    message = fill(kind(), itertools.count(1))
    with serving(**{method: answer(message)}) as asked, connect(asked.address) as client:
        assert set(arrived("", ask(client))) == set(sent(message))


def test_every_field_of_a_machine_arrives() -> None:
    message = fill(models_pb2.GetMachinesResponse(), itertools.count(1))
    with serving(GetMachines=answer(message)) as asked, connect(asked.address) as client:
        machines = list(client.machines())
    assert set(arrived("", machines)) == set(sent(message))


def test_every_event_of_a_benchmark_arrives() -> None:
    numbers = itertools.count(1)
    result = fill(models_pb2.NetResult(), numbers)
    summary = fill(models_pb2.NetSummary(), numbers)
    events = [
        models_pb2.BenchNetEvent(progress="pings"),
        *(
            models_pb2.BenchNetEvent(**{name: one})
            for name, one in (("result", result), ("summary", summary))
        ),
    ]
    with serving(BenchNet=chunks(*events)) as asked, connect(asked.address) as client:
        progress, *others = client.bench_net("a", "b", 0.5, force=True)
    assert asked.requests == [models_pb2.BenchNetRequest(from_host="a", to_host="b", seconds=0.5, force=True)]
    assert progress == "pings"
    assert set(arrived("", others)) == {*sent(result), *sent(summary)}


def test_models_are_asked_for_as_given() -> None:
    empty = {method: answer(kind()) for method, (kind, _) in MODELS.items()}
    subject = {"first_step": 0, "last_step": 9, "ranks": ["worker:0"]}
    with serving(**empty) as asked, connect(asked.address) as client:
        client.roofline("42", "hierarchical", "phase", **subject)
        client.time_roofline(experiment="scaling", jobs=["1", "2"], over="batch", points="step")
        client.trajectory("scaling", ["1"], "nodes", ["ps"], 3, None)
        client.breakdown("42", "rank", **subject)
        client.efficiency("42", ModelFlops(flops_per_step=1e9), **subject)
    wanted = models_pb2.Subject(job="42", **subject)
    assert asked.requests == [
        models_pb2.GetRooflineRequest(subject=wanted, kind="hierarchical", points="phase"),
        models_pb2.GetTimeRooflineRequest(
            subject=models_pb2.Subject(), experiment="scaling", jobs=["1", "2"], over="batch", points="step"
        ),
        models_pb2.GetTrajectoryRequest(
            experiment="scaling", jobs=["1"], over="nodes", roles=["ps"], first_step=3
        ),
        models_pb2.GetBreakdownRequest(subject=wanted, by="rank"),
        models_pb2.GetEfficiencyRequest(subject=wanted, flops_per_step=1e9),
    ]


def test_what_the_server_did_not_say_is_absent() -> None:
    message = pb.Report(roles=[pb.RoleReport(role="ps")])
    message.roles[0].summary.values["steps"].CopyFrom(values_pb2.Value(unit="1", reason="no marks"))
    with serving(report=answer(message)) as asked, connect(asked.address) as client:
        report = client.report("42")
    assert (report.first_step, report.last_step) == (None, None)
    assert report.roles[0].summary.values["steps"] == (None, "1", "", "", None, "no marks")


def test_zero_is_a_value() -> None:
    message = pb.Report(first_step=0, last_step=0, roles=[pb.RoleReport(role="ps")])
    message.roles[0].summary.values["steps"].CopyFrom(values_pb2.Value(value=0, coverage=0))
    with serving(report=answer(message)) as asked, connect(asked.address) as client:
        report = client.report("42")
    value = report.roles[0].summary.values["steps"]
    assert (value.value, value.coverage, report.first_step, report.last_step) == (0, 0, 0, 0)


@pytest.mark.parametrize(("first", "last"), [(None, None), (0, None), (None, 0), (3, 9)])
def test_steps_are_asked_for_as_given(first: int | None, last: int | None) -> None:
    with serving(report=answer(pb.Report())) as asked, connect(asked.address) as client:
        client.report("42", first, last)
    request = asked.requests[0]
    assert request.job == "42"
    assert (request.first_step if request.HasField("first_step") else None) == first
    assert (request.last_step if request.HasField("last_step") else None) == last


def test_large_report_arrives() -> None:
    """gRPC's own limit is 4 MiB; hundreds of ranks are more."""
    message = pb.Report(notes=["x" * 1000] * 8000)
    with serving(report=answer(message)) as asked, connect(asked.address) as client:
        assert len(client.report("42").notes) == 8000


@pytest.mark.parametrize(
    ("code", "kind", "exit_code"),
    [
        (grpc.StatusCode.NOT_FOUND, NotFound, 5),
        (grpc.StatusCode.INVALID_ARGUMENT, Refused, 3),
        (grpc.StatusCode.INTERNAL, Refused, 3),
        (grpc.StatusCode.UNAVAILABLE, Unreachable, 4),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Unreachable, 4),
        (grpc.StatusCode.UNIMPLEMENTED, Refused, 3),
    ],
)
def test_refusal_becomes_an_error_of_ours(
    code: grpc.StatusCode, kind: type[ClientError], exit_code: int
) -> None:
    scripted = serving(report=refuse(code))
    with scripted as asked, connect(asked.address) as client, pytest.raises(ClientError) as caught:
        client.report("42")
    assert type(caught.value) is kind
    assert caught.value.exit_code == exit_code
    assert caught.value.__suppress_context__  # no gRPC traceback above the one line


def test_refusal_keeps_the_servers_words() -> None:
    words = "steps 9 to 3: the first comes after the last"
    scripted = serving(report=refuse(grpc.StatusCode.INVALID_ARGUMENT, words))
    with scripted as asked, connect(asked.address) as client, pytest.raises(Refused, match=words):
        client.report("42", 9, 3)


def test_unknown_job_says_where_jobs_are_listed() -> None:
    scripted = serving(report=refuse(grpc.StatusCode.NOT_FOUND, "no job 'x'"))
    with scripted as asked, connect(asked.address) as client, pytest.raises(NotFound) as caught:
        client.report("x")
    assert str(caught.value) == "no job 'x' (see `roofline-client jobs`)"


def test_server_without_our_service() -> None:
    with serving() as asked, connect(asked.address) as client, pytest.raises(Refused, match="version"):
        client.jobs()


def test_nobody_listens() -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with connect(address) as client, pytest.raises(Unreachable) as caught:
            client.jobs()
    assert str(caught.value).startswith(f"no roofline-server answers at {address} (Connection refused); ")


def test_server_that_never_answers() -> None:
    with (
        never_answering() as asked,
        connect(asked.address, 0.2) as client,
        pytest.raises(Unreachable, match=r"within 0\.2 s"),
    ):
        client.report("42")


@pytest.mark.parametrize("ready", [True, False])
def test_server_that_is_not_ready_is_told_from_a_busy_one(ready: bool) -> None:
    scripted = serving(report=refuse(grpc.StatusCode.DEADLINE_EXCEEDED), ready=ready)
    with scripted as asked, connect(asked.address) as client, pytest.raises(Unreachable) as caught:
        client.report("42")
    assert ("not ready" in str(caught.value)) == (not ready)
    assert ("busy" in str(caught.value)) == ready


@pytest.mark.parametrize("address", ["head", "head:", ":7642", "head:0", "head:65536", "head:x", "head:-1"])
def test_address_that_cannot_be_one(address: str) -> None:
    with pytest.raises(Refused, match="HOST:PORT"):
        connect(address)


def test_enum_value_of_a_newer_server() -> None:
    """Growth rule in machine.proto: a receiver ignores what it does not know."""
    message = pb.Report(
        alignment=[pb.Alignment(host="a", error=values_pb2.Value(value=1, unit="s", scope=99))]
    )
    with serving(report=answer(message)) as asked, connect(asked.address) as client:
        assert client.report("42").alignment[0].error.scope == ""


@pytest.mark.parametrize(("job", "first"), [("42", 2**63), ("42", -(2**64)), ("\udcff", None)])
def test_question_that_does_not_fit_the_wire(job: str, first: int | None) -> None:
    scripted = serving(report=answer(pb.Report()))
    with scripted as asked, connect(asked.address) as client, pytest.raises(UsageError) as raised:
        client.report(job, first)
    assert ("cannot be sent" if first is None else f"first_step {first} is out of range") in str(raised.value)


def test_job_may_be_a_number_and_what_cannot_be_asked_for_is_said() -> None:
    with serving(report=answer(pb.Report())) as asked, connect(asked.address) as client:
        client.report(42)  # type: ignore[arg-type]
        assert asked.requests[-1].job == "42"
        with pytest.raises(UsageError, match=r"job 4\.2 cannot be sent"):
            client.report(4.2)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="rank cannot be asked for"):
            client.what_if("42", rank=3)


def test_last_is_the_newest_job() -> None:
    jobs = pb.ListJobsResponse(jobs=[pb.Job(job="41", begin_ns=1), pb.Job(job="42/2", begin_ns=2)])
    with serving(report=answer(pb.Report()), jobs=answer(jobs)) as asked, connect(asked.address) as client:
        client.job("last").report()
        assert asked.requests[-1].job == "42/2"


@pytest.mark.parametrize("steps", [(3,), (1, 2, 3), ("1", 2), ()])
def test_steps_that_are_no_range_are_refused(steps: Any) -> None:
    refused = pytest.raises(UsageError, match=r"must be \(FIRST, LAST\)")
    with connect("127.0.0.1:1") as client, refused:
        client.job("42").report(steps)


def test_port_of_odd_digits() -> None:
    with pytest.raises(Refused, match="HOST:PORT"):
        connect("head:7²")


def test_main_thread_is_never_inside_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    """There Ctrl-C may be dropped, or leave a lock held."""
    threads = []

    class Call:
        def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
            threads.append(threading.current_thread())
            return ()

    class ListJobs:
        def with_call(self, request: object, timeout: float) -> tuple[Any, Call]:
            threads.append(threading.current_thread())
            return pb.ListJobsResponse(), Call()

    def export(request: object) -> Messages:
        threads.append(threading.current_thread())
        return Messages()

    class Messages:
        def __next__(self) -> Any:
            threads.append(threading.current_thread())
            raise StopIteration

        def cancel(self) -> None:
            pass

    with Connection("127.0.0.1:9", 5.0) as connection:
        monkeypatch.setattr(connection, "_query", SimpleNamespace(ListJobs=ListJobs(), Export=export))
        assert connection.jobs() == []
        assert list(connection.export("42")) == []
    assert len(threads) == 4
    assert threading.main_thread() not in threads
