"""The command as a user runs it: exit codes, one-line errors, help, pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import roofline_client
from roofline.v1 import query_pb2 as pb
from roofline_client import Refused
from roofline_client.cli import parse_steps

from ..fakes import wait_for
from .fake_server import Asked, answer, never_answering, refuse, serving

COMMAND = [sys.executable, "-m", "roofline_client"]
PLAIN = {k: v for k, v in os.environ.items() if not k.startswith("ROOFLINE_") and k != "FORCE_COLOR"}


def run(*arguments: Any, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, env={**PLAIN, **environ}, capture_output=True, text=True, timeout=60)


def a_message() -> Any:
    value = pb.Value(value=0.03, unit="s", provenance="PROVENANCE_MEASURED", scope="SCOPE_PROCESS")
    rank = pb.RankReport(rank="worker:0", role="worker", host="node1")
    role = pb.RoleReport(role="worker", ranks=1, hosts=["node1"])
    for member in (rank, role):
        member.summary.values["step_time_median"].CopyFrom(value)
        member.summary.values["flops_per_step"].CopyFrom(pb.Value(unit="FLOP", reason="no kernels"))
    return pb.Report(job="42", begin_ns=10**18, end_ns=10**18 + 10**9, roles=[role], ranks=[rank])


def jobs_message() -> Any:
    job = pb.Job(
        job="42", begin_ns=10**18, end_ns=2 * 10**18, ranks=1, roles=[pb.RoleCount(role="worker", ranks=1)]
    )
    return pb.ListJobsResponse(jobs=[job])


@pytest.fixture(scope="module")
def server() -> Iterator[Asked]:
    with serving(report=answer(a_message()), jobs=answer(jobs_message())) as asked:
        yield asked


def one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("roofline-client: ")
    assert all(word in done.stderr for word in words), done.stderr


def test_report_in_all_forms(server: Asked) -> None:
    text, table, whole = (
        run("report", "--job", "42", "--server", server.address, "--format", form)
        for form in ("text", "csv", "json")
    )
    assert [done.returncode for done in (text, table, whole)] == [0, 0, 0]
    assert [done.stderr for done in (text, table, whole)] == ["", "", ""]
    assert "worker:0" in text.stdout and "30 ms" in text.stdout
    assert table.stdout.splitlines()[0].startswith("job,subject,role,rank,host,metric,value,unit")
    assert json.loads(whole.stdout)["ranks"][0]["rank"] == "worker:0"


def test_jobs_in_all_forms(server: Asked) -> None:
    text, whole = (run("jobs", "--server", server.address, "--format", form) for form in ("text", "json"))
    assert "workerx1" in text.stdout
    assert json.loads(whole.stdout)["jobs"][0]["job"] == "42"


def test_no_jobs_say_what_to_do() -> None:
    with serving(jobs=answer(pb.ListJobsResponse())) as asked:
        done = run("jobs", "--server", asked.address)
    assert done.returncode == 0 and "roofline-agent" in done.stdout


def test_server_from_the_environment(server: Asked) -> None:
    assert run("jobs", ROOFLINE_SERVER=server.address).returncode == 0
    assert run("report", "--job", "42", ROOFLINE_SERVER=server.address).returncode == 0


def test_server_from_the_environment_without_a_command(server: Asked) -> None:
    done = run(ROOFLINE_SERVER=server.address)
    assert done.returncode == 0 and "42" in done.stdout


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (grpc.StatusCode.NOT_FOUND, 5),
        (grpc.StatusCode.INVALID_ARGUMENT, 3),
        (grpc.StatusCode.INTERNAL, 3),
        (grpc.StatusCode.UNAVAILABLE, 4),
    ],
)
def test_exit_code_of_a_refusal(code: grpc.StatusCode, exit_code: int) -> None:
    with serving(report=refuse(code, "the words of the server")) as asked:
        one_line(run("report", "--job", "x", "--server", asked.address), exit_code)


def test_no_server() -> None:
    one_line(run("jobs", "--server", "127.0.0.1:9"), 4, "127.0.0.1:9", "--server")


def test_steps_that_are_none(server: Asked) -> None:
    one_line(run("report", "--job", "42", "--steps", "a:b", "--server", server.address), 3, "FIRST:LAST")


def test_nothing_to_draw(server: Asked, tmp_path: Path) -> None:
    plot = ("--plot", tmp_path / "x.png")
    one_line(run("report", "--job", "42", "--server", server.address, *plot), 1, "nothing to draw")


@pytest.mark.parametrize(
    "wrong",
    [
        ("report",),
        ("report", "--job", "42", "--format", "yaml"),
        ("jobs", "--format", "csv"),
        ("jobs", "--no-such-option"),
        ("no-such-command",),
    ],
)
def test_usage_errors(wrong: tuple[str, ...]) -> None:
    done = run(*wrong)
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr and "Traceback" not in done.stderr


def test_help_has_examples_and_exit_codes() -> None:
    done = run("--help")
    assert done.returncode == 0
    examples = [
        line.strip() for line in done.stdout.splitlines() if line.strip().startswith("roofline-client ")
    ]
    assert {"roofline-client jobs", "roofline-client report --job 42"} <= set(examples)
    assert any("--format json" in line for line in examples) and any("--plot" in line for line in examples)
    assert "Exit codes: 0 ok" in done.stdout
    for command in ("jobs", "report"):
        text = run(command, "--help").stdout
        assert "--server" in text and f"  roofline-client {command} " in text


def test_version() -> None:
    assert run("--version").stdout == f"roofline-client {roofline_client.__version__}\n"


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("", (None, None)),
        ("10:90", (10, 90)),
        ("10:", (10, None)),
        (":90", (None, 90)),
        ("10", (10, 10)),
        (":", (None, None)),
        ("0:0", (0, 0)),
    ],
)
def test_step_ranges(text: str, steps: tuple[int | None, int | None]) -> None:
    assert parse_steps(text) == steps


@pytest.mark.parametrize("text", ["a", "1:b", "1:2:3", "1.5:", "::"])
def test_no_step_ranges(text: str) -> None:
    with pytest.raises(Refused, match="FIRST:LAST"):
        parse_steps(text)


def into_closed_pipe(address: str, form: str) -> tuple[int, str]:
    """Exit code and stderr of `roofline-client report | head -1` where head has gone."""
    read, write = os.pipe()
    command = [*COMMAND, "report", "--job", "42", "--server", address, "--format", form]
    process = subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, env=PLAIN, text=True)
    os.close(write)
    os.close(read)
    return process.wait(timeout=60), process.communicate()[1]


@pytest.fixture(scope="module")
def talkative() -> Iterator[Asked]:
    """A report far larger than any buffer between here and there."""
    message = a_message()
    message.ranks.extend([message.ranks[0]] * 300)
    with serving(report=answer(message)) as asked:
        yield asked


@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_reader_that_goes_away_is_no_error_to_talk_of(talkative: Asked, server: Asked, form: str) -> None:
    for asked in (talkative, server):
        assert into_closed_pipe(asked.address, form)[1] == ""


@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_reader_that_goes_away_is_no_failure(talkative: Asked, form: str) -> None:
    assert into_closed_pipe(talkative.address, form)[0] == 0


def test_plot_of_another_kind_is_refused_before_the_question() -> None:
    with serving(report=answer(a_message())) as asked:
        done = run("report", "--job", "42", "--server", asked.address, "--plot", "x.bmp")
    assert done.returncode == 2 and ".svg" in done.stderr and asked.requests == []


def test_interrupt() -> None:
    with never_answering() as asked:
        command = [*COMMAND, "jobs", "--server", asked.address]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, env=PLAIN, text=True)
        wait_for(lambda: asked.requests, "the question")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert "Traceback" not in process.communicate()[1]


def test_without_the_client_extra(server: Asked) -> None:
    code = (
        "import sys; sys.modules['rich'] = None; sys.argv = ['roofline-client', 'jobs'];"
        "import roofline_client.cli as c; c.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**PLAIN, "ROOFLINE_SERVER": server.address},
        capture_output=True,
        text=True,
    )
    one_line(done, 1, "roofline-profiler[client]")


def test_number_that_is_none() -> None:
    message = a_message()
    message.roofs.add(host="node1").ceilings.add(name="dram.triad", kind="memory", value=float("nan"))
    with serving(report=answer(message)) as asked:
        done = run("report", "--job", "42", "--server", asked.address, "--format", "json")
    assert "Traceback" not in done.stderr
