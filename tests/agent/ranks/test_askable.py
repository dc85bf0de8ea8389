"""Names of jobs that could not be asked for are refused where a user gives them, else changed and named."""

from __future__ import annotations

import logging

import pytest
from roofline_agent.ranks.askable import askable, problem_of
from roofline_agent.ranks.identity import identify
from roofline_agent.ranks.settings import RankFacts
from roofline_agent.records import Rank

CHANGED = {"last": "job-last", "42/1": "42-1", "a/b/17": "a/b-17"}
AS_THEY_ARE = ("42", "first", "last-1", "Last", "team-a.resnet", "a/b", "42/0", "42/01", "/2", "42/1x", "")


@pytest.mark.parametrize("name", CHANGED)
def test_name_that_says_something_else_is_changed(name: str) -> None:
    assert repr(name) in problem_of(name) and "choose another name" in problem_of(name)
    assert askable(name) == CHANGED[name]
    assert problem_of(CHANGED[name]) == ""


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_other_names_stay(name: str) -> None:
    assert (askable(name), problem_of(name)) == (name, "")


@pytest.mark.parametrize(
    "environ",
    [
        {"ROOFLINE_JOB": "42/1", "ROOFLINE_WRAPPED": "1"},
        {"TORCHELASTIC_RUN_ID": "42/1", "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a"},
    ],
)
def test_environment_names_a_job_that_can_be_asked_for(environ: dict[str, str]) -> None:
    found = identify(environ)
    assert found is not None and found.job == "42-1"


def test_agent_warns_of_a_name_that_it_changed(caplog: pytest.LogCaptureFixture) -> None:
    rank = Rank("job-last", "worker", 0, 100)
    with caplog.at_level(logging.WARNING):
        RankFacts().of_started([(rank, {"ROOFLINE_JOB": "last"})], [rank], 7)
    assert "worker:0 of job job-last: ROOFLINE_JOB: 'last' stands for the newest job" in caplog.text
