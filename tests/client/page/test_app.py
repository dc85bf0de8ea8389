"""The page as `roofline-client page` serves it: a real process, real HTTP, a real gRPC server behind it."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.joining import Access, JoinToken, Servers, save_servers
from roofline.v1 import query_pb2 as pb
from roofline_client.page.visitors import TRIES
from roofline_server.access import AUTHORITY, CERTIFICATE, KEY
from roofline_server.access.authority import create

from tests.fakes import free_port

from .. import models
from ..chunks import introductions, message, slices, steps
from ..command_line import run
from ..fake_server import answer, chunks, refuse, serving
from . import overviews
from .page_process import COMMAND, Page, started

GUESS = str(JoinToken(bytes(32), "guessed"))
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    jobs = pb.ListJobsResponse(
        jobs=[
            pb.Job(
                job="41",
                begin_ns=1,
                end_ns=2_000_000_000,
                ranks=2,
                roles=[pb.RoleCount(role="ddp", ranks=2)],
                hosts=["node1"],
            ),
            pb.Job(job=EVIL, begin_ns=1, end_ns=2, running=True, tags={"a": EVIL}),
        ]
    )
    report = pb.Report(job="41", running=True, ranks=[pb.RankReport(rank="worker:0", role="worker")])
    scripts = {
        "GetSteps": chunks(message("steps", steps(), [])),
        "GetStepOverview": answer(overviews.message()),
        "ListAgents": answer(pb.ListAgentsResponse(agents=[pb.Agent(host=EVIL, connected=True)])),
        "GetStragglers": refuse(grpc.StatusCode.NOT_FOUND, "no job nine"),
        "GetRoofline": answer(models.roofline()),
        "GetBreakdown": answer(models.breakdown()),
        "GetEfficiency": answer(models.efficiency()),
        "GetMachines": answer(models.machines()),
        "GetTimeline": chunks(
            message("timeline", introductions()), message("timeline", slices("steps", [(0, 9)]))
        ),
    }
    with serving(answer(report), answer(jobs), **scripts) as asked:
        found = started(asked.address, tmp_path_factory.mktemp("config"))
        yield found
        assert found.close() in (0, -signal.SIGTERM)


def test_a_page_that_cannot_listen_says_so_and_ends_though_its_stdin_is_open(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        process = subprocess.Popen(
            [COMMAND, "page", "--server", "127.0.0.1:1", "--listen", place, "--until-stdin-ends"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        )
        with process:
            assert process.wait(30) == 1
            assert process.stderr and f"cannot listen at {place}" in process.stderr.read()


def test_pages_come_with_all_they_need_and_nothing_from_elsewhere(page: Page) -> None:
    for path in ("/", "/job?job=41", "/login", "/static/job.js", "/static/page.css", "/static/plotly.js"):
        status, text, headers = page.ask(path)
        assert status == 200, path
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "same-origin"
        if path.startswith(("/job", "/login")) or path == "/":
            assert "http://" not in text and "https://" not in text and "<script>" not in text
            assert headers["Cache-Control"] == "no-store"


def test_the_list_of_jobs_comes_as_it_changes_running_first(page: Page) -> None:
    jobs = page.event("/events/jobs")["jobs"]
    assert [(job["job"], job["running"]) for job in jobs] == [(EVIL, True), ("41", False)]
    assert jobs[1]["roles"] == "2 ddp" and jobs[1]["hosts"] == "node1"


def test_a_job_comes_with_verdict_and_pictures(page: Page) -> None:
    shown = page.events("/events/job?job=41", 3)
    pictures = {name: figure for one in shown for name, figure in one["pictures"].items()}
    assert set(pictures) >= {"steps", "late", "roofline"}
    (line,) = pictures["steps"]["data"]
    assert line["name"] == "worker:0" and len(line["x"]) == 3
    assert any('class="roofline"' in one.get("verdict", "") for one in shown)


def test_a_job_may_be_called_as_the_list_is(page: Page) -> None:
    assert "jobs" in page.event("/events/jobs")
    assert "pictures" in page.event("/events/job?job=jobs")


def test_names_are_escaped_in_html(page: Page) -> None:
    _, text, _ = page.ask("/job?job=%3Cscript%3Ealert(1)%3C/script%3E")
    assert EVIL not in text and "&lt;script&gt;" in text


@pytest.mark.parametrize("name", ["jobs", "report?job=41"])
def test_documents_are_those_of_the_command_line(page: Page, name: str, request: Any) -> None:
    status, text, headers = page.ask(f"/api/v1/{name}")
    assert status == 200 and headers["Content-Type"] == "application/json"
    command = name.partition("?")[0]
    server = next(word for word in page.process.args if ":" in str(word))  # type: ignore[union-attr]
    options = ("--job", "41") if "job=" in name else ()
    assert text.strip() == run(command, *options, "--server", server, "--format", "json").stdout.strip()


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/v1/report", 400, "job is missing"),
        ("/api/v1/report?job=41&jbo=2", 400, "jbo is not known"),
        ("/api/v1/report?job=41&steps=9:3", 400, "first comes after"),
        ("/api/v1/stragglers?job=9", 404, "no job nine"),
        ("/api/v1/nothing", 404, "Not Found"),
        ("/static/../app.py", 404, ""),
        ("/static/%2e%2e/app.py", 404, ""),
    ],
)
def test_bad_requests_say_what_is_wrong(page: Page, path: str, status: int, words: str) -> None:
    found, text, _ = page.ask(path)
    assert (found, words in text) == (status, True), text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/full?job=41", "Job 41, in full"),
        ("/breakdown?job=41", "what a step is made of"),
        ("/efficiency?job=41", "MFU 25.0% of the measured FP32 peak"),
        ("/compare", "Compare jobs"),
        ("/compare?first=41", 'value="41"'),
        ("/machines", "node1"),
        ("/trajectory", "Experiment"),
        ("/agents", "clock error"),
        ("/details?job=41", "Traffic between ranks was not counted"),
        ("/machines?host=node1", "What jobs were held against"),
    ],
)
def test_answers_are_pages(page: Page, path: str, words: str) -> None:
    status, text, _ = page.ask(path)
    assert (status, words in text) == (200, True), text
    assert 'role="alert"' not in text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/stragglers?job=9", 404, "no job nine"),
        ("/full?job=41&steps=9:3", 400, "the first comes after"),
        ("/compare?first=41&second=,", 400, "names no job to compare with"),
    ],
)
def test_an_answer_that_cannot_be_says_why(page: Page, path: str, status: int, words: str) -> None:
    found, text, _ = page.ask(path)
    assert (found, words in text) == (status, True), text
    assert "/static/answer.js" not in text, "there is nothing for it to fill"


@pytest.mark.parametrize(
    ("path", "kind", "words", "name"),
    [
        ("report.html?job=41", "text/html", "<title>Job 41</title>", "report-job-41.html"),
        ("report.csv?job=41", "text/csv", "rank,", "report-job-41.csv"),
        ("report.csv?job=41%22%0d%0a<x>", "text/csv", "rank,", "report-job-41-x-.csv"),
    ],
)
def test_a_report_is_kept_as_a_file(page: Page, path: str, kind: str, words: str, name: str) -> None:
    status, text, headers = page.ask(f"/download/{path}")
    assert (status, words in text) == (200, True), text
    assert headers["Content-Type"].startswith(kind)
    assert headers["Content-Disposition"] == f'attachment; filename="{name}"'


def test_a_timeline_is_kept_as_perfetto_reads_it(page: Page) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    connection.request("GET", "/download/timeline.json.gz?job=41")
    response = connection.getresponse()
    trace = json.loads(gzip.decompress(response.read()))
    connection.close()
    assert response.status == 200 and trace["traceEvents"]


@pytest.mark.parametrize(
    ("path", "status"), [("nothing", 404), ("report.csv", 400), ("report.csv?job=41&steps=x", 400)]
)
def test_what_cannot_be_kept_is_said(page: Page, path: str, status: int) -> None:
    assert page.ask(f"/download/{path}")[0] == status


def test_a_live_answer_is_asked_for_again(page: Page) -> None:
    _, text, _ = page.ask("/agents")
    assert 'data-events="/events/agents?"' in text
    assert "clock error" in page.event("/events/agents")["answer"]
    assert "data-events" not in page.ask("/full")[1]


def test_picked_steps_are_asked_for_and_bad_ones_refused(page: Page) -> None:
    shown = page.events("/events/job?job=41&steps=1:2", 4)  # of each feed, in any order
    assert [one["of"] for one in shown if "verdict" in one] == ["1:2"]
    for bad in ("steps=9:3", "ranks=x", "ranks=1:99999999999"):
        assert set(page.event(f"/events/job?job=41&{bad}")) == {"error"}


def test_a_refusal_ends_no_stream_so_that_the_browser_does_not_ask_again(page: Page) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    try:
        connection.request("GET", "/events/job?job=41&steps=10:5")
        response = connection.getresponse()
        assert response.status == 200
        assert b"the first comes after the last" in b"".join(response.readline() for _ in range(2))
        assert not response.readline().strip()
        assert connection.sock is not None
        connection.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            response.readline()
    finally:
        connection.close()


def test_what_is_asked_for_is_escaped(page: Page) -> None:
    _, text, _ = page.ask("/full?job=%3Cscript%3Ealert(1)%3C/script%3E&steps=%22%3E%3Cscript%3E1:")
    assert "<script>" not in text and text.count("&lt;script&gt;") >= 2


def test_the_description_names_all_documents(page: Page) -> None:
    _, text, _ = page.ask("/api/v1/openapi.json")
    described = json.loads(text)
    assert described["openapi"].startswith("3.") and len(described["paths"]) >= 8
    parameters = described["paths"]["/api/v1/report"]["get"]["parameters"]
    assert [(one["name"], one["required"]) for one in parameters] == [("job", True), ("steps", False)]


def test_who_logs_out_gets_no_more_events(tmp_path: Path) -> None:
    server = f"127.0.0.1:{free_port()}"
    create(tmp_path)
    joined = Access((tmp_path / AUTHORITY).read_text(), "a reader's token")
    save_servers(tmp_path / "roofline" / "servers.json", Servers(server, {server: joined}))
    page = started(server, tmp_path)
    try:
        code = page.process.stderr.readline().partition("#")[2].split()[0]  # type: ignore[union-attr]
        form = {
            "Origin": f"http://127.0.0.1:{page.port}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        session = {
            "Cookie": page.ask("/login", "POST", f"token={code}", **form)[2]["Set-Cookie"].split(";")[0]
        }
        connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)
        connection.request("GET", "/events/jobs", headers=session)
        response = connection.getresponse()
        assert response.status == 200 and response.readline() == b"id: jobs\r\n"
        assert page.ask("/logout", "POST", "x", **form, **session)[0] == 303
        response.read()  # times out unless it ends
        assert page.ask("/events/jobs", **session)[0] == 401
        connection.close()
    finally:
        page.close()


def test_texts_that_are_no_token_lock_nobody_out(page: Page) -> None:
    headers = {
        "Origin": f"http://127.0.0.1:{page.port}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    for _ in range(TRIES + 1):
        status, text, _ = page.ask("/login", "POST", "token=a+wrong+paste", **headers)
        assert status == 403 and "no join token" in text
    tried = [page.ask("/login", "POST", f"token={GUESS}", **headers)[0] for _ in range(TRIES + 1)]
    assert tried == [403] * TRIES + [429]


def test_last_is_the_newest_job(page: Page) -> None:
    assert page.ask("/api/v1/report?job=last")[0] == 200


def test_a_name_that_was_made_to_point_here_sees_nothing(page: Page) -> None:
    status, text, _ = page.ask("/api/v1/jobs", Host="evil.example:7645")
    assert status == 421 and "41" not in text


def test_forms_of_other_pages_are_refused(page: Page) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://evil.example"}
    assert page.ask("/login", "POST", "token=x", **form)[0] == 403
    assert page.ask("/api/v1/jobs", "POST", "x", **form)[0] == 403
    assert page.ask("/login", "POST", "token=x", **{**form, "Origin": "null"})[0] == 403


def test_a_server_that_is_away_is_said_and_the_page_lives(tmp_path: Path) -> None:
    away = started(f"127.0.0.1:{free_port()}", tmp_path)
    try:
        assert "no roofline-server answers" in away.event("/events/jobs")["error"]
        status, text, _ = away.ask("/api/v1/jobs")
        assert status == 503 and "no roofline-server answers" in text
        assert away.ask("/")[0] == 200
    finally:
        away.close()


def test_an_answer_that_could_not_be_had_again_says_of_when_it_is(tmp_path: Path) -> None:
    answers = iter([answer(pb.ListJobsResponse(jobs=[pb.Job(job="41")]))])
    failing = refuse(grpc.StatusCode.INTERNAL, "the disk is full")
    with serving(jobs=lambda *asked: next(answers, failing)(*asked), report=answer(pb.Report())) as asked:
        page = started(asked.address, tmp_path)
        try:
            first, second = page.events("/events/jobs", 2)
        finally:
            page.close()
    assert [one["job"] for one in first["jobs"]] == ["41"]
    assert "the disk is full" in second["error"]
    assert 0 <= time.time() * 1000 - second["answered_ms"] < 60_000


def test_an_address_that_others_reach_needs_tls() -> None:
    done = run("page", "--listen", "0.0.0.0:7645", "--server", "127.0.0.1:1")
    assert done.returncode == 2 and "--certificate" in done.stderr and "ssh -L" in done.stderr


def test_an_address_that_others_reach_needs_a_server_with_tokens(tmp_path: Path) -> None:
    create(tmp_path)
    files = ("--certificate", str(tmp_path / CERTIFICATE), "--key", str(tmp_path / KEY))
    with serving() as asked:
        done = run(
            "page", "--server", asked.address, "--listen", f"0.0.0.0:{free_port()}", *files, "--tokens"
        )
    assert done.returncode == 2 and "can be reached by others" in done.stderr
    assert "roofline-server init" in done.stderr


def test_that_tokens_are_asked_for_in_vain_is_said(tmp_path: Path) -> None:
    with serving() as asked:
        found = started(asked.address, tmp_path, "--tokens")
        found.process.terminate()
        assert "asks for no tokens: everybody on this machine" in found.process.communicate(timeout=20)[1]


def test_a_port_that_is_taken_is_one_line(page: Page) -> None:
    done = run("page", "--listen", f"127.0.0.1:{page.port}", "--server", "127.0.0.1:1")
    assert done.returncode == 1 and "cannot listen" in done.stderr and "Traceback" not in done.stderr


def test_what_may_be_asked_for_is_offered_and_a_page_without_a_question_says_what_it_is_for(
    page: Page,
) -> None:
    status, text, _ = page.ask("/compare")
    assert status == 200 and '<option value="41">' in text and "side by side" in text
    assert EVIL not in text and "&lt;script&gt;" in text
    assert '<option value="ranks">' in page.ask("/trajectory")[1]
    assert 'href="/job?job=41&amp;steps="' in page.ask("/breakdown?job=41")[1], "the way back to the job"
