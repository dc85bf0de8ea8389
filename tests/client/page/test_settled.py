"""When what was found of a job that is over is asked for again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from roofline.answers.jobs import Job
from roofline_client.errors import Unreachable
from roofline_client.page.live import Shown
from roofline_client.page.settled import AGAIN_S, LISTED_S, MOST_AGAIN_S, Listed, Settled


class Server:
    """A list of jobs, and a watch whose answers are numbered."""

    def __init__(self) -> None:
        self.now, self.listings, self.looks, self.running = 1000.0, 0, 0, False
        self.away = False
        self.lines = [Job("42", 1, 2, 1, {"ddp": 1}, ["h"], False, {})]
        self.settled = Settled("42", self, Listed(self.clock), self.clock)

    def clock(self) -> float:
        return self.now

    def jobs(self) -> list[Job]:
        self.listings += 1
        return self.lines

    def look(self, client: Any) -> Shown:
        if self.away:
            raise Unreachable("no server answers")
        self.looks += 1
        return str(self.looks), self.running

    def shown(self, after_s: float = 0.0) -> str:
        self.now += after_s
        text, may_change = self.settled.look(self)  # type: ignore[arg-type]
        assert may_change == self.running
        return text


def test_a_job_that_is_over_is_not_asked_for_again() -> None:
    server = Server()
    assert {server.shown(AGAIN_S / 10) for _ in range(10)} == {"1"}


def test_one_that_the_list_says_has_changed_is() -> None:
    server = Server()
    server.shown()
    server.lines = [server.lines[0]._replace(removed="raw data")]
    assert server.shown() == "1", "what the list says may be some seconds old"
    assert server.shown(LISTED_S) == "2"
    server.lines = [server.lines[0]._replace(job=f"42/{number}") for number in (1, 2)]
    assert server.shown(LISTED_S) == "3"
    server.lines = [*server.lines, server.lines[0]._replace(job="42/3")]
    assert server.shown(LISTED_S) == "4"
    server.lines = [*server.lines, server.lines[0]._replace(job="421")]
    assert server.shown(LISTED_S) == "4"


def test_a_question_that_failed_is_asked_again() -> None:
    server = Server()
    server.shown()
    server.lines, server.away = [server.lines[0]._replace(end_ns=3)], True
    for _ in range(2):
        with pytest.raises(Unreachable):
            server.shown(LISTED_S)
    server.away = False
    assert [server.shown(LISTED_S) for _ in range(3)] == ["2", "2", "2"]


def test_one_that_runs_again_is_asked_for_at_each_look() -> None:
    server = Server()
    server.shown()
    server.lines, server.running = [server.lines[0]._replace(running=True)], True
    assert server.shown(LISTED_S) == "2"
    listings = server.listings
    assert [server.shown(1.0) for _ in range(3)] == ["3", "4", "5"]
    assert server.listings == listings, "of a running job the list is not needed"


def test_steps_that_come_late_are_seen_ever_more_seldom() -> None:
    server, asked = Server(), []
    for _ in range(int(10 * MOST_AGAIN_S / AGAIN_S)):
        before = server.looks
        server.shown(AGAIN_S)
        if server.looks > before:
            asked.append(server.now)
    apart = [after - before for before, after in pairwise(asked)]
    assert apart[:3] == [AGAIN_S, 2 * AGAIN_S, 4 * AGAIN_S] and max(apart) == MOST_AGAIN_S
