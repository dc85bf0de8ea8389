"""The command as a user runs it: exit codes, one-line errors, help, pipes."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import roofline_client
import typer
from roofline.v1 import query_pb2 as pb
from roofline.v1 import values_pb2
from roofline_client import Refused, cli
from roofline_client.step_range import parse_steps

from ..fakes import wait_for
from .chunks import introductions, message, slices, steps
from .command_line import COMMAND, PLAIN, one_line, run, run_process
from .fake_server import Asked, answer, chunks, never_answering, refuse, serving


def a_message() -> Any:
    value = values_pb2.Value(value=0.03, unit="s", provenance="PROVENANCE_MEASURED", scope="SCOPE_PROCESS")
    rank = pb.RankReport(rank="worker:0", role="worker", host="node1")
    role = pb.RoleReport(role="worker", ranks=1, hosts=["node1"])
    for member in (rank, role):
        member.summary.values["step_time_median"].CopyFrom(value)
        member.summary.values["flops_per_step"].CopyFrom(values_pb2.Value(unit="FLOP", reason="no kernels"))
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


def test_report_in_all_forms(server: Asked) -> None:
    text, table, whole = (
        run_process("report", "--job", "42", "--server", server.address, "--format", form)
        for form in ("text", "csv", "json")
    )
    assert [done.returncode for done in (text, table, whole)] == [0, 0, 0]
    assert [done.stderr for done in (text, table, whole)] == ["", "", ""]
    assert "worker:0" in text.stdout and "30 ms" in text.stdout
    assert table.stdout.splitlines()[0].startswith("job,subject,role,rank,host,metric,value,unit")
    assert json.loads(whole.stdout)["ranks"][0]["rank"] == "worker:0"


def test_jobs_in_all_forms(server: Asked) -> None:
    text, table, whole = (
        run("jobs", "--server", server.address, "--format", form) for form in ("text", "csv", "json")
    )
    assert "workerx1" in text.stdout
    assert json.loads(whole.stdout)["jobs"][0]["job"] == "42"
    heads, values = (line.split(",") for line in table.stdout.splitlines())
    assert dict(zip(heads, values, strict=True))["job"] == "42"


@pytest.mark.parametrize("left_out", [0, 31_900])
def test_text_lists_the_newest_jobs_and_says_how_many_there_are(left_out: int) -> None:
    """left_out: 0 as a server of an earlier release answers, with all."""
    jobs = pb.ListJobsResponse(jobs=[pb.Job(job=f"j{number}") for number in range(60)], left_out=left_out)
    with serving(jobs=answer(jobs)) as asked:

        def lines(*options: str) -> list[str]:
            return run("jobs", "--server", asked.address, *options).stdout.splitlines()

        shown = lines()
        assert sum(line.startswith("j") for line in shown) == 50 + 1, "with the head"
        assert shown[-1] == f"... and {10 + left_out:,} more (--all)"
        assert lines("--limit", "5")[-1] == f"... and {55 + left_out:,} more (--all)"
        assert len(json.loads("".join(lines("--format", "json")))["jobs"]) == 60
        assert len(json.loads("".join(lines("--format", "json", "--limit", "5")))["jobs"]) == 5


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
    one_line(run_process("jobs", "--server", "127.0.0.1:9"), 4, "127.0.0.1:9", "--server")


def test_steps_that_are_none(server: Asked) -> None:
    one_line(run("report", "--job", "42", "--steps", "a:b", "--server", server.address), 2, "FIRST:LAST")


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (("report", "--job", "42", "--steps", "5:3"), "first comes after"),
        (("roofline", "--job", "42", "--steps", "x"), "FIRST:LAST"),
        (("steps", "--job", "42", "--from", "5", "--to", "3"), "first comes after"),
        (("stragglers", "--job", "42", "--from", "5", "--to", "3"), "first comes after"),
        (("timeline", "--job", "42", "--from", "5", "--to", "3", "-o", "never.json"), "first comes after"),
        (("jobs", "--server", "nonsense"), "HOST:PORT"),
        (("jobs", "--server", "::1:7642"), "as in [::1]:7642"),
        (("report", "--job", "42", "--steps=-5:3"), "counted from 0"),
        (("steps", "--job", "42", "--from", "-5"), "counted from 0"),
        (("report", "--job", "42", "--steps", f"{2**63}:"), "no step has a number above 9223372036854775807"),
        (("steps", "--job", "42", "--to", str(10**20)), "no step has a number above 9223372036854775807"),
        (("what-if", "--job", "42", "--ranks", str(10**12)), "ranks 1000000000000 is out of range"),
        (("what-if", "--job", "42", "--ps", str(10**12)), "servers 1000000000000 is out of range"),
        (("steps", "--job", "42", "--steps", "5:9", "--to", "7"), "either --steps"),
        (("timeline", "--job", "42", "--steps", "9:5", "-o", "never.json"), "first comes after"),
    ],
)
def test_what_no_server_could_answer_is_a_usage_error(wrong: tuple[str, ...], word: str) -> None:
    one_line(run(*wrong), 2, word)


def test_nothing_to_draw(server: Asked, tmp_path: Path) -> None:
    plot = ("--plot", tmp_path / "x.png")
    one_line(run("report", "--job", "42", "--server", server.address, *plot), 5, "nothing to draw")
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        ("report",),
        ("report", "--job", "42", "--format", "yaml"),
        ("jobs", "--format", "xml"),
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


def commands_with_examples() -> dict[str, list[str]]:
    return {c.function.__name__.replace("_", "-"): list(c.examples) for c in cli.COMMANDS}


@pytest.mark.parametrize("command", commands_with_examples())
def test_help_of_every_command_has_examples_that_parse_and_exit_codes(command: str) -> None:
    text = run(command, "--help").stdout
    assert "Exit codes: 0 ok" in " ".join(text.split()) and "5 no such job" in " ".join(text.split())
    examples = commands_with_examples()[command]
    assert len(examples) >= 2
    for example in examples:
        assert f"    roofline-client {example}" in text.splitlines()
        _, *words = shlex.split(re.split(r" [|>] ", example)[0])
        # Fails for an option or an argument that the command does not have.
        typer.main.get_command(cli.app).commands[command].make_context(command, words)  # type: ignore[attr-defined]


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


def test_range_that_no_step_is_in() -> None:
    with pytest.raises(Refused, match="5 to 3: the first comes after the last"):
        parse_steps("5:3")


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


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_reader_that_goes_away_is_no_failure(talkative: Asked, form: str) -> None:
    assert into_closed_pipe(talkative.address, form)[0] == 0


def test_output_that_grows_too_large_is_one_line(server: Asked, tmp_path: Path) -> None:
    command = [*COMMAND, "report", "--job", "42", "--server", server.address, "--format", "json"]
    limited = ["sh", "-c", 'ulimit -f 0; exec "$@"', "-", *command]  # as a quota, but EFBIG
    with open(tmp_path / "out", "w") as file:
        done = subprocess.run(limited, stdout=file, stderr=subprocess.PIPE, env=PLAIN, text=True, timeout=60)
    one_line(done, 1, "the output cannot be written (File too large)")


def test_closed_output_is_one_line(server: Asked) -> None:
    closed = ["sh", "-c", '"$@" >&-', "-", *COMMAND, "jobs", "--server", server.address]
    for form in ("text", "json", "csv"):
        command = [*closed, "--format", form]
        done = subprocess.run(command, stderr=subprocess.PIPE, env=PLAIN, text=True, timeout=60)
        one_line(done, 1, "the output cannot be written (Bad file descriptor)")


@pytest.mark.parametrize("number", [errno.EDQUOT, errno.EIO, errno.ENOSPC])
def test_output_that_cannot_be_written_is_one_line(number: int) -> None:
    code = (
        "import os, roofline_client.cli as c\n"
        f"def app(_): raise OSError({number}, os.strerror({number}))\n"
        "c.app = app; c.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], env=PLAIN, capture_output=True, text=True, timeout=60)
    one_line(done, 1, f"the output cannot be written ({os.strerror(number)})")


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


def test_rank_without_a_process_has_no_pid(server: Asked) -> None:
    done = run("report", "--job", "42", "--server", server.address, "--format", "json")
    [found] = json.loads(done.stdout)["ranks"]
    assert found["pid"] is None


# -- steps, stragglers, timeline, export ---------------------------------------------------------------------

QUESTIONS = {
    "GetSteps": chunks(message("steps", steps(), ["a note"]), message("steps", steps("worker:1"))),
    "GetStragglers": answer(pb.Stragglers(job="42", verdict="no rank holds the others up", notes=["a note"])),
    "GetTimeline": chunks(
        message("timeline", introductions(), ["a note"]),
        message("timeline", slices("steps", [(0, 10), (10, 20)])),
    ),
    "Export": chunks(message("marks", {"rank": ["worker:0"], "time_ns": [1]})),
}


@pytest.fixture(scope="module")
def site() -> Iterator[Asked]:
    with serving(**QUESTIONS) as asked:
        yield asked


def asking(site: Asked, *arguments: Any) -> subprocess.CompletedProcess[str]:
    return run(*arguments, "--job", "42", "--server", site.address)


def test_steps_in_all_forms(site: Asked) -> None:
    text, table, whole = (asking(site, "steps", "--format", form) for form in ("text", "csv", "json"))
    assert [done.returncode for done in (text, table, whole)] == [0, 0, 0]
    assert "Job 42: 6 steps of ranks" in text.stdout and "  - a note" in text.stdout
    assert table.stdout.splitlines()[0] == "rank,step,begin_ns,duration_ns,cpu_time,sent_bytes"
    assert len(table.stdout.splitlines()) == 7
    assert table.stderr == "roofline-client: note: a note\n"
    assert len(json.loads(whole.stdout)["steps"]) == 6


def test_steps_are_asked_for_by_rank_and_number(site: Asked) -> None:
    asked = ("--rank", "worker:0", "--rank", "ps:1", "--from", 3, "--to", 9)
    assert asking(site, "steps", *asked).returncode == 0
    request = site.requests[-1]
    assert (list(request.ranks), request.first_step, request.last_step) == (["worker:0", "ps:1"], 3, 9)


@pytest.mark.parametrize("command", [("steps",), ("timeline", "-o", os.devnull)])
def test_steps_are_a_range(site: Asked, command: tuple[str, ...]) -> None:
    for words, bounds in ((("--steps", "3:9"), (3, 9)), (("--from", "3", "--to", "9"), (3, 9))):
        assert asking(site, *command, *words).returncode == 0
        request = site.requests[-1]
        assert (request.first_step, request.last_step) == bounds
    assert asking(site, *command, "--steps", "3:").returncode == 0
    assert not site.requests[-1].HasField("last_step")


def test_timeline_has_the_name_of_what_is_in_it(site: Asked, tmp_path: Path) -> None:
    done = asking(site, "timeline", "-o", tmp_path / "x.txt")
    assert done.returncode == 2 and ".json.gz" in done.stderr
    assert not (tmp_path / "x.txt").exists()


@pytest.mark.parametrize("encoding", ["ascii", "latin1"])
@pytest.mark.parametrize("form", ["text", "csv", "json"])
@pytest.mark.parametrize("command", ["steps", "stragglers", "jobs"])
def test_any_encoding_of_the_output_will_do(encoding: str, form: str, command: str) -> None:
    odd = "wörker≥·→🙂:0"
    questions = {
        "GetSteps": chunks(message("steps", steps(odd), [odd])),
        "GetStragglers": answer(pb.Stragglers(job="42", verdict=odd, notes=[odd])),
        "ListJobs": answer(pb.ListJobsResponse(jobs=[pb.Job(job=odd, hosts=[odd])])),
    }
    with serving(jobs=questions.pop("ListJobs"), **questions) as asked:
        words = [command, "--format", form, "--server", asked.address]
        words += [] if command == "jobs" else ["--job", "42"]
        done = subprocess.run(
            [*COMMAND, *words], env={**PLAIN, "PYTHONIOENCODING": encoding}, capture_output=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout and b"Traceback" not in done.stderr


def test_html_has_the_encoding_that_it_names() -> None:
    message = a_message()
    message.job = "größer"
    with serving(answer(message)) as asked:
        done = subprocess.run(
            [*COMMAND, "report", "--job", "42", "--format", "html", "--server", asked.address],
            env={**PLAIN, "PYTHONIOENCODING": "latin-1"},
            capture_output=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    found = done.stdout.decode()
    assert "größer" in found and 'charset="utf-8"' in found.lower()


def test_long_names_fold() -> None:
    name = "a" * 200
    with serving(jobs=answer(pb.ListJobsResponse(jobs=[pb.Job(job=name, hosts=["h"])]))) as asked:
        lines = run("jobs", "--server", asked.address).stdout.splitlines()
    assert max(map(len, lines)) < 140
    assert sum(line.count("a" * 20) for line in lines) >= 3
    assert "".join(line.split()[0] for line in lines[1:] if line.startswith("a")) == name


def test_help_names_the_variables() -> None:
    help_ = run("--help").stdout
    for name in ("ROOFLINE_SERVER", "NO_COLOR", "COLUMNS"):
        assert name in help_


def test_stragglers_in_all_forms(site: Asked) -> None:
    text, table, whole = (asking(site, "stragglers", "--format", form) for form in ("text", "csv", "json"))
    assert text.stdout.splitlines()[0] == "no rank holds the others up"
    assert table.stdout.startswith("job,subject,rank,host,kind")
    assert table.stderr == "roofline-client: note: a note\n" and text.stderr == whole.stderr == ""
    assert json.loads(whole.stdout)["verdict"] == "no rank holds the others up"


def test_stragglers_are_asked_for_by_steps(site: Asked) -> None:
    assert asking(site, "stragglers", "--steps", "10:90").returncode == 0
    assert (site.requests[-1].first_step, site.requests[-1].last_step) == (10, 90)
    one_line(asking(site, "stragglers", "--steps", "10:", "--to", "90"), 2, "either --steps")


def test_timeline_is_written_and_told_of(site: Asked, tmp_path: Path) -> None:
    done = asking(site, "timeline", "--kernels", "-o", tmp_path / "t.json")
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr.splitlines()[0] == "roofline-client: note: a note"
    assert "2 slices" in done.stderr and "\x1b" not in done.stderr
    assert sum(e["ph"] == "X" for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"]) == 2
    assert site.requests[-1].kernels is True


def test_export_is_written_and_told_of(site: Asked, tmp_path: Path) -> None:
    done = asking(site, "export", "-o", tmp_path / "raw")
    assert done.returncode == 0 and "1 rows of 1 datasets" in done.stderr
    assert sorted(os.listdir(tmp_path / "raw")) == ["columns.csv", "marks.csv"]
    before = len(site.requests)
    one_line(asking(site, "export", "-o", tmp_path / "raw"), 1, "not empty", "--force")
    assert len(site.requests) == before  # refused before the question
    assert asking(site, "export", "--force", "-o", tmp_path / "raw").returncode == 0


@pytest.mark.parametrize("command", ["steps", "stragglers", "timeline", "export"])
@pytest.mark.parametrize(
    ("code", "exit_code"),
    [(grpc.StatusCode.NOT_FOUND, 5), (grpc.StatusCode.INVALID_ARGUMENT, 3), (grpc.StatusCode.UNAVAILABLE, 4)],
)
def test_exit_code_of_other_refusals(
    tmp_path: Path, command: str, code: grpc.StatusCode, exit_code: int
) -> None:
    refused = refuse(code, "the words of the server")
    with serving(**dict.fromkeys(QUESTIONS, refused)) as asked:
        where = ("-o", tmp_path / "x.json") if command in ("timeline", "export") else ()
        one_line(asking(asked, command, *where), exit_code)
    assert not (tmp_path / "x").exists() or os.listdir(tmp_path / "x") == []


def test_rank_that_is_none_gets_no_advice_on_jobs() -> None:
    refused = refuse(grpc.StatusCode.NOT_FOUND, "job 42 has no rank 'worker:9'; it has worker:0")
    with serving(GetSteps=refused) as asked:
        done = asking(asked, "steps")
    assert done.stderr == "roofline-client: job 42 has no rank 'worker:9'; it has worker:0\n"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_steps_may_be_cut_off(form: str) -> None:
    many = [message("steps", steps(f"worker:{i}", 200)) for i in range(20)]
    with serving(GetSteps=chunks(*many)) as asked:
        read, write = os.pipe()
        command = [
            *COMMAND,
            "steps",
            "--last",
            "0",
            "--job",
            "42",
            "--server",
            asked.address,
            "--format",
            form,
        ]
        process = subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, env=PLAIN, text=True)
        os.close(write)
        os.close(read)
        assert process.communicate(timeout=60)[1] == "" and process.returncode == 0


def waits_for_ever(first: Any, over: threading.Event) -> Any:
    def script(request: Any, context: Any) -> Iterator[Any]:
        yield first
        over.wait(60)

    return script


@pytest.mark.parametrize("command", ["timeline", "export"])
def test_interrupt_leaves_no_half_file(tmp_path: Path, command: str) -> None:
    over = threading.Event()
    first = (
        message("timeline", introductions()) if command == "timeline" else message("marks", {"rank": ["a"]})
    )
    script = waits_for_ever(first, over)
    with serving(GetTimeline=script, Export=script) as asked:
        target = tmp_path / "x.json"
        line = [*COMMAND, command, "--job", "42", "--server", asked.address, "-o", str(target)]
        process = subprocess.Popen(line, stderr=subprocess.PIPE, env=PLAIN, text=True)
        wait_for(lambda: list(tmp_path.rglob(".*.part")), "the file begins")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert "Traceback" not in process.communicate()[1]
        over.set()
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


DROPPED = """
import os, signal, time
from roofline_client import interrupts
class Callback:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):
            pass  # Python raises KeyboardInterrupt here, and drops it
interrupts.raise_once()
try:
    Callback()
    time.sleep(60)
except KeyboardInterrupt:
    interrupts.leave()
"""


def test_interrupt_that_python_drops_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (130, "")


def test_second_interrupt_ends_what_ignores_the_first() -> None:
    code = """
import os, signal, time
from roofline_client import interrupts
interrupts.raise_once()
for _ in range(3):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    except KeyboardInterrupt:
        print("once", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (130, "once\n", "")


def test_interrupt_that_is_ignored_stays_ignored() -> None:
    code = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from roofline_client import interrupts
interrupts.end_at_once()
interrupts.raise_once()
os.kill(os.getpid(), signal.SIGINT)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0


@pytest.mark.parametrize("command", ["timeline", "export"])
def test_full_disk_is_told_and_leaves_no_half_file(tmp_path: Path, command: str) -> None:
    """A limit on the size of files stands for the end of a disk."""
    big = {
        "GetTimeline": chunks(
            message("timeline", introductions()), message("timeline", slices("steps", [(0, 1)] * 5000))
        ),
        "Export": chunks(message("marks", {"rank": ["worker:0"] * 5000})),
    }
    with serving(**big) as asked:
        line = [*COMMAND, command, "--job", "42", "--server", asked.address, "-o", str(tmp_path / "x.json")]
        limit = "import resource, sys, os; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); "
        code = limit + "os.execv(sys.argv[1], sys.argv[1:])"
        environ = {**PLAIN, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code, *line], env=environ, capture_output=True, text=True, timeout=60
        )
    one_line(done, 1, "cannot write", "File too large")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize("command", ["steps", "stragglers", "timeline", "export"])
def test_help_of_the_others(command: str) -> None:
    text = run(command, "--help").stdout
    assert f"  roofline-client {command} --job 42" in text and "--server" in text


@pytest.mark.parametrize(
    "wrong",
    [
        ("steps",),
        ("steps", "--job", "42", "--from", "x"),
        ("steps", "--job", "42", "--last", "-1"),
        ("steps", "--job", "42", "--format", "xml"),
        ("timeline", "--job", "42"),
        ("export", "--job", "42"),
        ("what-if", "--job", "42"),
        ("what-if", "--job", "42", "--ranks", "0"),
        ("efficiency", "--job", "42", "--parameters", "1e9"),
        ("efficiency", "--job", "42", "--layers", "2", "--hidden", "8"),
        ("efficiency", "--job", "42", "--causal"),
        ("what-if", "--job", "42", "--bandwidth", "fast"),
        ("what-if", "--job", "42", "--batch", "-3"),
        ("what-if", "--job", "42", "--batch", "nan"),
    ],
)
def test_usage_errors_of_the_others(wrong: tuple[str, ...]) -> None:
    done = run(*wrong)
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
