"""`roofline-client report` as a user runs it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from roofline.answers.verdict import Verdict
from roofline.convert import to_message
from roofline.v1 import query_pb2 as pb
from roofline_client.commands.report import with_seconds

from ...fakes import wait_for
from ..command_line import COMMAND, PLAIN, one_line, run, run_process
from ..fake_server import Asked, answer, serving
from ..reports import rank, report
from ..verdicts import verdict

JOBS = answer(pb.ListJobsResponse(jobs=[pb.Job(job="43"), pb.Job(job="42")]))


def message(made: Verdict, running: bool = False) -> Any:
    found = report([rank("ps:0"), rank("worker:0")], verdict=made, running=running)
    return to_message(pb.Report(), found, without=("sources", "points"))


@pytest.fixture(scope="module")
def site() -> Iterator[Asked]:
    with serving(report=answer(message(verdict())), jobs=JOBS) as asked:
        yield asked


@pytest.mark.parametrize("words", [("--job", "42"), ("42",), ("42", "--job", "42")])
def test_job_can_be_given_in_two_ways(site: Asked, words: tuple[str, ...]) -> None:
    done = run("report", *words, "--server", site.address)
    assert done.returncode == 0 and done.stdout.startswith("Job 42 "), done.stderr
    assert site.requests[-1].job == "42"
    assert len(done.stdout.splitlines()) <= 30 and "BOTTLENECK" in done.stdout


def test_last_is_the_newest_job(site: Asked) -> None:
    assert run("report", "last", "--server", site.address).returncode == 0
    assert site.requests[-1].job == "43"


def test_last_of_no_jobs() -> None:
    with serving(jobs=answer(pb.ListJobsResponse())) as asked:
        one_line(run("report", "last", "--server", asked.address), 5, "no jobs yet")


@pytest.mark.parametrize("words", [(), ("41", "--job", "42"), ("42", "--format", "pdf")])
def test_what_cannot_be_asked(site: Asked, words: tuple[str, ...]) -> None:
    done = run("report", *words, "--server", site.address)
    assert done.returncode == 2 and done.stdout == "" and done.stderr


def test_full_has_the_tables_below_the_screen(site: Asked) -> None:
    text = run("report", "42", "--full", "--server", site.address).stdout
    assert text.index("BOTTLENECK") < text.index("Settings and facts") < text.index("Notes")


@pytest.mark.parametrize(("form", "begin"), [("md", "- **Job 42**"), ("html", "<!DOCTYPE html>")])
def test_other_forms(site: Asked, form: str, begin: str) -> None:
    done = run("report", "42", "--format", form, "--server", site.address)
    assert done.returncode == 0 and done.stdout.startswith(begin) and "stalls the workers" in done.stdout


def test_notes_that_csv_has_no_place_for_are_on_stderr(site: Asked) -> None:
    done = run("report", "42", "--format", "csv", "--server", site.address)
    notes = report().notes
    assert notes and done.stderr.splitlines() == [f"roofline-client: note: {note}" for note in notes]


@pytest.mark.parametrize("encoding", ["ascii", "latin1"])
def test_terminal_that_lacks_characters(encoding: str) -> None:
    made = verdict(headline="é…世", quality=["é…世"])
    with serving(report=answer(message(made)), jobs=JOBS) as asked:
        done = subprocess.run(
            [*COMMAND, "report", "42", "--full", "--server", asked.address],
            env={**PLAIN, "PYTHONIOENCODING": encoding},
            capture_output=True,
        )
    assert done.returncode == 0 and done.stderr == b""
    shown = "?" if encoding == "ascii" else "é"
    assert f"Data         {shown}...?" in done.stdout.decode(encoding)


def test_no_colours_when_piped_and_none_with_no_color(site: Asked) -> None:
    assert "\x1b" not in run_process("report", "42", "--server", site.address).stdout
    assert b"\x1b[1;31m" in on_terminal("report", "42", "--server", site.address)[1]
    shown = on_terminal("report", "42", "--server", site.address, NO_COLOR="1")[1]
    assert b"BOTTLENECK" in shown and b"31m" not in shown


def test_brief_is_the_verdict_in_ten_lines(site: Asked) -> None:
    done = run("report", "42", "--brief", "--server", site.address)
    assert done.returncode == 0 and len(done.stdout.splitlines()) <= 10
    assert done.stdout.startswith("Job 42 ") and "BOTTLENECK" in done.stdout


@pytest.mark.parametrize("words", [("--full",), ("--format", "csv"), ("--format", "html")])
def test_brief_goes_with_no_other_form(site: Asked, words: tuple[str, ...]) -> None:
    before = len(site.requests)
    one_line(run("report", "42", "--brief", *words, "--server", site.address), 2, "--brief")
    assert len(site.requests) == before


def test_wait_ends_with_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_client.commands.report.AGAIN_S", 0.01)
    running, over = answer(message(verdict(), running=True)), answer(message(verdict()))
    asked: list[int] = []

    def ends(request: Any, context: Any) -> Any:
        asked.append(1)
        return (running if len(asked) < 3 else over)(request, context)

    with serving(report=ends, jobs=JOBS) as server:
        assert run("report", "42", "--wait", "10", "--server", server.address).returncode == 0
        assert len(asked) == 4, "until it is over, and then the report"
        assert run("report", "42", "--server", server.address).returncode == 0
        assert len(asked) == 5


def test_wait_is_as_long_as_was_said_also_where_answers_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_client.commands.report.AGAIN_S", 0.01)

    def slow(request: Any, context: Any) -> Any:
        time.sleep(0.2)
        return message(verdict(), running=True)

    with serving(report=slow, jobs=JOBS) as asked:
        assert run("report", "42", "--wait", "0.3", "--server", asked.address).returncode == 0
    assert 2 <= len(asked.requests) <= 3, "one or two in that time, and then the report"


@pytest.mark.parametrize("option", ["--wait", "--watch"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300"])
def test_times_that_nobody_can_wait_for_are_refused(option: str, seconds: str) -> None:
    done = run("report", "42", option, seconds, "--server", "127.0.0.1:1")
    assert done.returncode == 2 and re.search(f"Invalid value for '?{option}'?: ", done.stderr), done.stderr


# -- watching -----------------------------------------------------------------------------------------------

HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"
OTHER_SCREEN, OWN_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


def on_terminal(
    *arguments: str, interrupt: Any = None, by: signal.Signals = signal.SIGINT, **environ: str
) -> tuple[int, bytes]:
    """Exit code and what a terminal received. interrupt: waits for when Ctrl-C is pressed, or for when the
    process gets that other signal."""
    own, other = pty.openpty()
    env = {**PLAIN, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", **environ}
    env.pop("NO_COLOR", None) if "NO_COLOR" not in environ else None
    process = subprocess.Popen([*COMMAND, *arguments], stdout=other, stderr=other, env=env)
    os.close(other)
    if interrupt is not None:
        interrupt()
        process.send_signal(by)
    received = b""
    while True:
        try:
            piece = os.read(own, 65536)
        except OSError:  # the other end is closed
            break
        received += piece
        if not piece:
            break
    os.close(own)
    return process.wait(timeout=60), received


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (["report", "42", "--watch"], ["report", "42", "--watch", "2.0"]),
        (["report", "42", "--watch", "5"], ["report", "42", "--watch", "5"]),
        (["report", "--watch", "--job", "42"], ["report", "--watch", "2.0", "--job", "42"]),
        ([], []),
    ],
)
def test_seconds_can_be_left_out(given: list[str], made: list[str]) -> None:
    assert with_seconds(given) == made


def test_watching_ends_with_the_job_and_leaves_the_last_screen() -> None:
    states = iter([True, True, False])
    with serving(report=lambda request, context: message(verdict(), next(states)), jobs=JOBS) as asked:
        code, shown = on_terminal("report", "42", "--watch", "0.2", "--server", asked.address)
    assert code == 0 and len(asked.requests) == 3
    assert shown.rindex(OTHER_SCREEN) < shown.rindex(OWN_SCREEN) < shown.rindex(b"BOTTLENECK")
    assert shown.rindex(HIDDEN) < shown.rindex(SHOWN)


@pytest.mark.parametrize(("by", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_gives_the_terminal_back(by: signal.Signals, exit_code: int) -> None:
    with serving(report=answer(message(verdict(), running=True)), jobs=JOBS) as asked:

        def asked_again() -> None:
            wait_for(lambda: len(asked.requests) >= 2, "a second question")

        code, shown = on_terminal(
            "report", "42", "--watch", "0.2", "--server", asked.address, interrupt=asked_again, by=by
        )
    assert code == exit_code and b"Traceback" not in shown
    assert shown.rindex(HIDDEN) < shown.rindex(SHOWN) and shown.rindex(OWN_SCREEN) < shown.rindex(
        b"BOTTLENECK"
    )


@pytest.mark.parametrize("words", [(), ("--format", "json"), ("--full",), ("--brief",)])
def test_watching_needs_a_terminal_and_the_first_screen(site: Asked, words: tuple[str, ...]) -> None:
    one_line(run("report", "42", "--watch", *words, "--server", site.address), 2, "--watch")


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_watching_needs_a_terminal_that_can_be_redrawn(site: Asked, term: str) -> None:
    code, shown = on_terminal("report", "42", "--watch", "--server", site.address, TERM=term, COLUMNS="300")
    assert code == 2 and f"which one of TERM={term} is not".encode() in shown


def test_job_that_was_taken_for_seconds_is_named(site: Asked) -> None:
    done = run("report", "--watch", "41234567", "--server", site.address)
    one_line(done, 2, "--watch took 41234567 as seconds; write `report 41234567 --watch`")
    done = run("report", "--watch", "--server", site.address)
    assert done.returncode == 2 and "took" not in done.stderr
