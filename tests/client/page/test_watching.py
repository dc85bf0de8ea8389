"""What is asked for a job that somebody looks at, and what is sent of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from roofline.answers.report import Report
from roofline.answers.roofline import Roofline
from roofline.answers.step_overview import RecentSteps, StepOverview
from roofline.convert import from_message
from roofline.v1 import query_pb2 as pb
from roofline_client.errors import UsageError
from roofline_client.page.watching import Chosen, JobState, LateWatch, RooflineWatch, StepsWatch, VerdictWatch

from .. import models, verdicts
from .overviews import late, line, overview

RECENT = [RecentSteps(0.0, 900, 999), RecentSteps(10.0, 800, 899), RecentSteps(60.0, 300, 399)]


class Server:
    """Answers as a client's connection does; keeps what was asked."""

    def __init__(self, running: bool = False) -> None:
        self.running, self.asked = running, []  # type: ignore[var-annotated]
        self.lateness = [late("worker:0", 0.0)]
        self.newest_ns = 999

    def step_overview(self, job: str, **asked: Any) -> StepOverview:
        self.asked.append(("overview", asked))
        found = overview([line("worker:0", 0.1)], self.lateness, recent=RECENT, newest_ns=self.newest_ns)
        return found._replace(running=self.running)

    def report(self, job: str, **asked: Any) -> Report:
        self.asked.append(("report", asked))
        report = from_message(Report, pb.Report(job=job, running=self.running))
        return report._replace(verdict=verdicts.verdict())  # type: ignore[no-any-return]

    def roofline(self, job: str, kind: str, points: str, **steps: int | None) -> Roofline:
        self.asked.append(("roofline", steps))
        return from_message(Roofline, models.roofline())  # type: ignore[no-any-return]

    def of(self, question: str) -> list[dict[str, Any]]:
        return [asked for name, asked in self.asked if name == question]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def shown(watch: Any, server: Server) -> dict[str, Any]:
    text, may_change = watch.look(server)
    assert may_change == server.running
    return json.loads(text)  # type: ignore[no-any-return]


def test_picked_steps_are_what_verdict_and_roofline_are_of() -> None:
    server, state = Server(running=True), JobState()
    verdict = shown(VerdictWatch(Chosen("42", "10:90"), state), server)
    roofline = shown(RooflineWatch(Chosen("42", "10:90"), state), server)
    picked = {"first_step": 10, "last_step": 90}
    assert server.of("report") == [{**picked, "first_screen": True}] and server.of("roofline") == [picked]
    assert verdict["of"] == roofline["roofline_of"] == "10:90"
    assert list(verdict["pictures"]) == list(verdict["tables"]) == ["account"]
    assert list(roofline["pictures"]) == list(roofline["tables"]) == ["roofline"]
    point = next(one for one in roofline["pictures"]["roofline"]["data"] if one["mode"] == "markers")
    assert point["customdata"][0].startswith("steps 10:90<br>"), "a hover says which steps"


def test_what_holds_a_running_job_up_now_is_of_its_newest_steps() -> None:
    server, watch = Server(running=True), StepsWatch("42", JobState())
    assert shown(watch, server)["now"] == "" and not server.of("report"), "step times first"
    server.newest_ns = 1009
    found = shown(watch, server)["now"]
    assert server.of("report") == [{"newest": True, "first_screen": True}]
    assert "ps:1 stalls the workers" in found
    assert shown(watch, server)["now"] == found and len(server.of("report")) == 1, "there is no new step"
    server.newest_ns = 1020
    shown(watch, server)
    assert len(server.of("report")) == 2
    server.running = False
    assert shown(watch, server)["now"] == ""


def test_picked_steps_and_ranks_are_what_lateness_is_of() -> None:
    server = Server()
    found = shown(LateWatch(Chosen("42", "10:", "16:31")), server)
    assert server.of("overview") == [{"first_step": 10, "last_step": None, "first_rank": 16, "last_rank": 31}]
    assert found["late_of"] == "10:/16:31" and set(found["pictures"]) == {"late"}
    assert shown(StepsWatch("42", JobState()), server)["late_of"] == "/"


def test_rows_of_several_ranks_can_be_chosen_by_name_and_single_ranks_need_not() -> None:
    server = Server()
    assert shown(StepsWatch("42", JobState()), server)["groups"] == []
    server.lateness = [late("worker:0 to worker:15", 0.0, first=0, last=15), late("ps:0", 0.0, first=16)]
    assert shown(StepsWatch("42", JobState()), server)["groups"] == [
        ["worker:0 to worker:15", "0:15"],
        ["ps:0", "16:16"],
    ]


def test_the_roofline_of_a_running_job_is_of_its_last_seconds() -> None:
    server = Server(running=True)
    shown(RooflineWatch(Chosen("42"), JobState()), server)
    assert server.of("roofline")[-1] == {"first_step": 900}


def test_what_step_times_have_shown_is_not_asked_for_the_roofline_again() -> None:
    server, clock = Server(running=True), Clock()
    state = JobState(clock)
    steps, roofline = StepsWatch("42", state), RooflineWatch(Chosen("42"), state, clock)
    shown(steps, server)
    shown(roofline, server)
    assert server.of("overview") == [{}], "once, for both"
    clock.now += 30
    shown(roofline, server)
    assert server.of("overview") == [{}, {"stretches": 1}], "what is known is too old"
    server.running = False
    shown(steps, server)
    shown(roofline, server)
    assert server.of("roofline")[-1] == {} and len(server.of("overview")) == 3, "of one that is over: all"


def test_a_trail_is_there_from_the_first_look_on() -> None:
    server, clock = Server(running=True), Clock()
    watch = RooflineWatch(Chosen("42"), JobState(clock), clock)
    before = trails(shown(watch, server))
    assert before and all(one["customdata"] == ["60 s ago", "10 s ago", "now"] for one in before)
    assert {"first_step": 300, "last_step": 399} in server.of("roofline")
    clock.now += 50
    shown(watch, server)
    assert len(server.of("roofline")) == 4, "what was before is asked for once"
    clock.now += 10
    (again, *_) = trails(shown(watch, server))
    assert again["customdata"] == ["60 s ago", "10 s ago", "now"]
    clock.now += 600
    shown(watch, server)
    assert len(server.of("roofline")) == 8, "nobody has looked for long: it is asked for again"


def test_a_job_that_is_over_has_no_trail() -> None:
    assert trails(shown(RooflineWatch(Chosen("42"), JobState()), Server())) == []


def trails(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in message["pictures"]["roofline"]["data"] if one["mode"] == "lines+markers"]


@pytest.mark.parametrize(
    "given",
    [
        {"steps": "9:3"},
        {"steps": "x"},
        {"ranks": "3"},
        {"ranks": "a:b"},
        {"ranks": "0:4294967296"},
        {"ranks": f"0:{'9' * 5000}"},
        {"ranks": f"{'9' * 5000}:1"},
        {"steps": f"0:{'9' * 5000}"},
    ],
)
def test_a_pick_that_cannot_be_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        Chosen.of({"job": "42", **given})
