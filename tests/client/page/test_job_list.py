"""What a line of the list of jobs says."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from roofline.answers.jobs import Job
from roofline.answers.report import Report
from roofline.convert import from_message
from roofline.v1 import query_pb2 as pb
from roofline_client.errors import Refused
from roofline_client.page.job_list import MOST, RUNNING_S, WITH_VERDICT, JobList, shortened

from .. import reports, verdicts
from .overviews import line, overview


@pytest.mark.parametrize(
    ("sentence", "short"),
    [
        ("ps:1 stalls the workers", "ps:1 stalls the workers"),
        ("CPU contention on every rank: it costs a third", "CPU contention on every rank"),
        ("one two three four five six", "one two three four five …"),
        ("not known: no steps were seen in it", "not known"),
        ("ddp:0 sleeps, or is blocked on something not traced", "ddp:0 sleeps, or is blocked …"),
    ],
)
def test_what_holds_a_job_up_is_said_in_five_words(sentence: str, short: str) -> None:
    verdict = verdicts.verdict()
    assert shortened(verdict._replace(headline=sentence, bottleneck=None)) == short


class Server:
    """Answers as a client's connection does; counts."""

    def __init__(self, *jobs: Job) -> None:
        self.listed, self.asked = list(jobs), 0
        self.names: list[str] = []
        self.spent_s, self.granted_share, self.takes_s = 0.0, 0.25, 0.0

    def jobs(self) -> list[Job]:
        return self.listed

    def report(self, job: str, **_: Any) -> Report:
        self.asked += 1
        self.names.append(job)
        self.spent_s += self.takes_s
        if job == "broken":
            raise Refused("no")
        return from_message(Report, pb.Report(job=job))  # type: ignore[no-any-return]

    def step_overview(self, job: str, **_: Any) -> Any:
        return overview([line("worker:0", 0.5, math.nan, 0.25)])


def job(name: str, running: bool = False, end_ns: int = 2) -> Job:
    return Job(name, 1, end_ns, 1, {"ddp": 1}, ["h"], running, {"a": "b"}, users=["alice", "bob"])


def lines(found: JobList, server: Server) -> list[dict[str, Any]]:

    return json.loads(found.look(server)[0])["jobs"]  # type: ignore[arg-type, no-any-return]


def test_speed_is_drawn_over_the_steps_and_a_hole_stays_one() -> None:
    (found,) = lines(JobList(), Server(job("1")))
    assert (
        found["sparks"] == [2.0, None, 4.0] and found["user"] == "alice, bob" and found["tags"] == {"a": "b"}
    )


@pytest.mark.parametrize(("rate", "speed"), [(0.0022, "0.0022"), (1.4, "1.4"), (22484.0, "22,484")])
def test_a_slow_job_has_a_speed_all_the_same(rate: float, speed: str) -> None:
    class Rated(Server):
        def report(self, job: str, **_: Any) -> Report:
            found = verdicts.verdict(examples_per_second=reports.seen(rate, "examples/s"))
            return reports.report(verdict=found, job=job)

    (found,) = lines(JobList(), Rated(job("1")))
    assert found["speed"] == f"{speed} examples/s"


def test_a_job_that_cannot_be_reported_is_listed_all_the_same() -> None:
    assert [one["job"] for one in lines(JobList(), Server(job("broken"), job("1")))] == ["broken", "1"]


def test_of_jobs_that_are_over_nothing_is_asked_twice_and_of_others_some_seconds_later() -> None:
    now = [0.0]
    server, watch = Server(job("1"), job("2", running=True)), JobList(lambda: now[0])
    lines(watch, server)
    lines(watch, server)
    assert server.asked == 2
    now[0] += RUNNING_S
    lines(watch, server)
    assert server.asked == 3


def test_of_many_running_jobs_one_is_asked_for_anew_at_a_look_the_oldest_first() -> None:
    now = [0.0]
    server = Server(job("1", running=True), job("2", running=True), job("broken", running=True))
    watch = JobList(lambda: now[0])
    lines(watch, server)
    assert server.asked == 3, "none is without at first"
    for looks in range(1, 4):
        now[0] += RUNNING_S
        lines(watch, server)
        assert server.asked == 3 + looks


def test_a_running_job_that_takes_long_or_that_a_busy_server_has_is_asked_for_more_seldom() -> None:
    now = [0.0]
    server = Server(job("1", running=True))
    server.takes_s = 1.0
    watch = JobList(lambda: now[0])
    for share, expected_s in ((0.25, 16.0), (0.02, 200.0)):
        server.granted_share = share
        now[0] += 1000
        lines(watch, server)
        before = server.asked
        now[0] += expected_s - 1
        lines(watch, server)
        assert server.asked == before
        now[0] += 1
        lines(watch, server)
        assert server.asked == before + 1


def test_many_jobs_that_are_not_known_yet_are_asked_for_look_by_look() -> None:
    server = Server(*(job(str(number)) for number in range(6)))
    server.takes_s, server.granted_share = 0.2, 0.25
    watch = JobList()
    asked = []
    for _ in range(3):
        found = lines(watch, server)
        asked.append(server.asked)
        assert sum(bool(line["sparks"]) for line in found) == server.asked
    assert asked == [3, 6, 6], "a look takes half a second of the server's time, or one job"
    server.listed, server.granted_share = [job(f"42/{number}", running=True) for number in range(6)], 0.01
    lines(watch, server)
    lines(watch, server)
    assert server.asked == 8


def test_running_jobs_are_asked_for_anew_when_one_is_no_longer_among_the_first() -> None:
    now = [0.0]
    server, watch = Server(job("old", running=True)), JobList(lambda: now[0])
    lines(watch, server)
    newer = [job(f"new{number}", running=True, end_ns=9) for number in range(WITH_VERDICT)]
    server.listed = [*newer, *server.listed]
    now[0] += 1
    lines(watch, server)
    server.names.clear()
    for _ in range(WITH_VERDICT):
        now[0] += RUNNING_S
        lines(watch, server)
    assert sorted(server.names) == sorted(one.job for one in newer)


def test_running_jobs_are_asked_for_anew_though_one_that_has_ended_cannot_be_reported() -> None:
    now = [0.0]
    server = Server(job("broken", running=True), job("1", running=True))
    watch = JobList(lambda: now[0])
    lines(watch, server)
    server.listed[0] = job("broken")
    for _ in range(3):
        now[0] += RUNNING_S
        server.names.clear()
        lines(watch, server)
        assert "1" in server.names


def test_a_job_that_ends_is_asked_for_and_those_that_ended_before_are_not() -> None:
    server = Server(*(job(str(number), end_ns=100 - number) for number in range(2 * WITH_VERDICT)))
    watch = JobList(lambda: 0.0)
    lines(watch, server)
    assert server.asked == WITH_VERDICT
    server.listed = [job("new", end_ns=101), *server.listed]
    for _ in range(3):
        lines(watch, server)
    assert server.asked == WITH_VERDICT + 1


def test_how_many_jobs_there_are_is_said_though_the_newest_alone_are_listed() -> None:
    server = Server(*(job(str(number), end_ns=number) for number in range(MOST + 3)))
    server.takes_s = 10.0
    found = json.loads(JobList().look(server)[0])  # type: ignore[arg-type]
    assert found["known"] == MOST + 3
    assert [len(found["jobs"]), found["jobs"][-1]["job"]] == [MOST, "3"]
